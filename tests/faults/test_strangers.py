"""F34: what strangers send to the web process and the gateway: half requests, endless heads, bodies, drips."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import repeat

import psutil
import pytest
import redis

from config.data_folders import ROOT
from tests.faults.raw_client import RawClient, head, status_of
from tests.headroom_edge.world import HOURLY, Client, publish_world
from tests.processes import environment, wait_for
from tests.valkeys import free_port

HALF = b"GET /portal HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Hal"
NOBODY = "Bearer hr_" + "0" * 16 + "_" + "0" * 64
MEGABYTE = 1_000_000
MOST_GROWTH_MB = 20
# What answers without a login, in each process.
ALIVE = {"config.web": "/static/dashboards/icon.svg", "headroom_edge.gateway": "/healthz"}
WAYS_IN = {"config.web": "/portal", "headroom_edge.gateway": "/v1/check"}


class Target:
    def __init__(self, module: str, port: int, process: psutil.Process) -> None:
        self.module, self.port, self._process = module, port, process
        # Until all that a stranger's request needs is loaded.
        for _ in range(20):
            self.is_well()
            Client(port).post(WAYS_IN[module], b"x" * 20_000, authorization=NOBODY)
        self._first = self._rss()
        self.most = self._first

    def is_well(self) -> bool:
        return Client(self.port).get(ALIVE[self.module]).status == 200

    def _rss(self) -> int:
        return int(self._process.memory_info().rss)

    def look(self) -> float:
        """By how many MB the process has grown, at most."""
        self.most = max(self.most, self._rss())
        return (self.most - self._first) / MEGABYTE


@contextmanager
def started(module: str, redis_url: str) -> Iterator[Target]:
    port = free_port()
    command = [sys.executable, "-m", module, "--port", str(port)]
    process = subprocess.Popen(command, env=environment(redis_url, HEADROOM_HTTPS="0"), cwd=ROOT)
    try:
        wait_for(port, process)
        yield Target(module, port, psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait(120)


@pytest.fixture(params=sorted(ALIVE))
def target(request: pytest.FixtureRequest, db: None, valkey: redis.Redis, valkey_url: str) -> Iterator[Target]:
    publish_world(valkey, HOURLY)
    with started(request.param, valkey_url) as found:
        yield found


def endless_heads(target: Target, count: int) -> Counter[int]:
    """20 MB in one line, and 20,000 fields."""
    lines = Counter[int]()
    for _ in range(count):
        with RawClient(target.port, HALF) as client:
            lines[status_of(client.send_all(repeat(b"x" * MEGABYTE, 20)))] += 1
        with RawClient(target.port) as client:
            lines[status_of(client.send_all([head("GET", "/portal", *repeat("a: b", 20_000))]))] += 1
        target.look()
    return lines


def bodies(target: Target, count: int, size: int = 1_900_000) -> Counter[int]:
    """Of somebody whose token is not valid, all at once; and some that are too large for anybody."""
    request = head("POST", WAYS_IN[target.module], f"Content-Length: {size}", f"Authorization: {NOBODY}")
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(target.port, request)) for _ in range(count)]
        for _ in range(size // 65_536):
            for client in clients:
                client.socket.settimeout(0)
                client.send(b"x" * 65_536)
            target.look()
        for client in clients:
            client.socket.settimeout(60)
        said = Counter(status_of(client.answer()) for client in clients)
    with RawClient(target.port, head("POST", WAYS_IN[target.module], "Content-Length: 16000000")) as client:
        said[status_of(client.send_all(repeat(b"x" * 65_536, 200)))] += 1
    return said


def half_bodies(target: Target, stack: ExitStack, count: int, size: int) -> list[RawClient]:
    """Whole heads, each with `size` bytes of a body that does not go on."""
    request = head("POST", WAYS_IN[target.module], f"Content-Length: {2 * size}", f"Authorization: {NOBODY}")
    clients = list[RawClient]()
    for number in range(count):
        clients.append(stack.enter_context(RawClient(target.port, request)))
        clients[-1].socket.settimeout(0)
        clients[-1].send(b"x" * size)
        if number % 100 == 0:
            target.look()
    return clients


def allow_files(stack: ExitStack) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8_000, hard), hard))
    stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))


def assert_refused(target: Target, heads: Counter[int], said: Counter[int]) -> None:
    assert set(heads) <= {0, 431}, heads
    assert heads[431] > 0
    # 0: closed while the client was still sending. The web process asks strangers for pages to sign in.
    assert set(said) <= {0, 302, 401, 408, 413, 429, 503}, said
    assert target.look() <= MOST_GROWTH_MB


def test_strangers_are_refused_and_take_no_memory(target: Target) -> None:
    with ExitStack() as stack:
        allow_files(stack)
        half_bodies(target, stack, 1_000, 14_000)
        for _ in range(200):
            stack.enter_context(RawClient(target.port, HALF))
        heads, said = endless_heads(target, 2), bodies(target, 40)
        assert target.is_well()
        assert "server" not in Client(target.port).get(ALIVE[target.module]).headers
        with RawClient(target.port, head("GET", ALIVE[target.module], "Host: another")) as client:
            assert status_of(client.rest()) == 400
    assert_refused(target, heads, said)


@pytest.mark.faults_long
@pytest.mark.timeout(600)
def test_three_thousand_half_requests_are_closed_within_ten_seconds(
    target: Target, figures: Callable[[str], None]
) -> None:
    answered, asked = 0, 0
    with ExitStack() as stack:
        allow_files(stack)
        halves = list[RawClient]()
        for number in range(3_000):
            halves.append(stack.enter_context(RawClient(target.port, HALF if number % 2 else b"")))
            if number % 100 == 0:
                asked, answered = asked + 1, answered + target.is_well()
                target.look()
        drip = stack.enter_context(RawClient(target.port, head("POST", "/v1/check", "Content-Length: 1000")))
        opened = time.monotonic()
        grown = [target.look()]
        heads = endless_heads(target, 5)
        grown.append(target.look())
        said = bodies(target, 100)
        grown.append(target.look())
        waited, kept = 0, len(halves)
        while waited < 60 and (drip.send(b"x") or kept):
            waited += 1
            asked, answered = asked + 1, answered + target.is_well()
            target.look()
            time.sleep(1)
            kept = sum(not client.has_news() for client in halves)
        seconds = time.monotonic() - opened
    figures(
        f"{target.module}: 3,000 half requests, {kept} open after {seconds:.0f} s, the drip ended too, "
        f"heads {dict(heads)}, bodies {dict(said)}, +{target.look():.1f} MB "
        f"(after each: {', '.join(f'{size:.1f}' for size in grown)}), others {answered} of {asked} answered"
    )
    assert (kept, answered) == (0, asked)
    assert waited <= 12
    assert_refused(target, heads, said)


@pytest.mark.faults_long
@pytest.mark.timeout(600)
def test_three_thousand_half_bodies_take_no_memory(target: Target, figures: Callable[[str], None]) -> None:
    grown, answered, kept = list[float](), 0, 0
    sizes = (1_000, 14_000, 60_000)
    for size in sizes:
        with ExitStack() as stack:
            allow_files(stack)
            clients = half_bodies(target, stack, 3_000, size)
            grown.append(target.look())
            answered += target.is_well()
            deadline = time.monotonic() + 60
            while (kept := sum(not client.has_news() for client in clients)) and time.monotonic() < deadline:
                time.sleep(0.5)
            target.look()
    figures(
        f"{target.module}: 3,000 half bodies each of {', '.join(f'{size:,}' for size in sizes)} bytes, {kept} open, "
        f"+{target.look():.1f} MB (after each: {', '.join(f'{size:.1f}' for size in grown)}), "
        f"others {answered} of {len(sizes)} answered"
    )
    assert (kept, answered) == (0, len(sizes))
    assert target.look() <= MOST_GROWTH_MB
