"""F1 to F3 and F31 at the check server: the store is killed, silent or slow; clients bend HTTP beside others."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count, cycle
from typing import Any

import psutil
import pytest
import redis

from headroom_edge import AsyncLimiter
from headroom_edge.gateway.protocol import CheckProtocol
from headroom_edge.gateway.server import Gateway
from headroom_edge.store.breaker import BreakerSettings
from tests.faults.load import MODES, OTHER_ENDPOINT, modes
from tests.faults.proxy import Proxy
from tests.faults.raw_client import RawClient, head, status_of
from tests.faults.test_strangers import MOST_GROWTH_MB
from tests.figures import percentile
from tests.headroom_edge.gateway.test_check_server import process
from tests.headroom_edge.limiter.both import until
from tests.headroom_edge.limiter.world import publish
from tests.headroom_edge.world import MACHINE, publish_directory, served
from tests.valkeys import SpareValkey

QUICK = BreakerSettings(failures=3, cooldown_s=0.05)
AMPLE_MS = 60_000


@dataclass
class Callers:
    """Each has a connection of its own that it keeps, and its own failure mode."""

    port: int
    answers: list[tuple[str, str, Any]] = field(default_factory=list)  # endpoint, holder, reply
    took_s: list[float] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    def ask(self, client: RawClient, endpoint: str) -> Any:
        holder = f"caller-{next(self._numbers)}"
        body = json.dumps({"tenant": "acme", "endpoint": endpoint, "holder": holder}).encode()
        fields = (f"Authorization: Bearer {MACHINE}", f"Content-Length: {len(body)}")
        start = time.monotonic()
        client.send(head("POST", "/v1/check", *fields) + body)
        said = client.answer()
        self.took_s.append(time.monotonic() - start)
        assert status_of(said) == 200, said
        reply = json.loads(said.partition(b"\r\n\r\n")[2])
        self.answers.append((endpoint, holder, reply))
        return reply

    def call(self, endpoint: str, stop: threading.Event) -> None:
        try:
            with RawClient(self.port) as client:
                while not stop.wait(0.001):
                    self.ask(client, endpoint)
        except BaseException as error:  # noqa: BLE001 - whatever reaches a caller is what the test looks for
            self.errors.append(error)

    @contextmanager
    def running(self) -> Iterator[None]:
        stop = threading.Event()
        threads = [threading.Thread(target=self.call, args=(endpoint, stop)) for endpoint in (*MODES, *MODES)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join(120)

    def is_well(self) -> bool:
        with RawClient(self.port) as client:
            return not any(self.ask(client, endpoint)["degraded"] for endpoint in MODES)

    def degraded(self) -> set[str]:
        return {reply["degraded"] for _, _, reply in self.answers if reply["degraded"]}

    def assert_nobody_was_harmed(self) -> None:
        assert self.errors == []
        for endpoint, holder, reply in self.answers:
            assert reply["holder"] == holder
            if reply["degraded"]:
                assert (reply["degraded"], reply["allowed"]) == (MODES[endpoint], MODES[endpoint] != "closed")


@contextmanager
def serving(client: redis.Redis, url: str, **settings: Any) -> Iterator[tuple[Callers, AsyncLimiter]]:
    publish(client, modes())
    publish_directory(client)
    limiter = AsyncLimiter.from_url(url, **{"budget_ms": AMPLE_MS, "fail": "closed", "breaker": QUICK, **settings})
    with served(Gateway(limiter), CheckProtocol) as server:
        callers = Callers(server.port)
        plans = limiter._core.failures._plans
        until(lambda: callers.is_well() and plans.get(("acme", OTHER_ENDPOINT)) is not None)
        # Before a failure mode was known, the default may have answered.
        callers.answers.clear()
        callers.took_s.clear()
        yield callers, limiter


@pytest.fixture(autouse=True)
def chores(tick_s: Callable[[float], None]) -> None:
    """They fetch the plan of the limit that is `local`."""
    tick_s(0.05)


def test_a_killed_store_leaves_each_limit_its_mode_and_is_used_again(spare_valkey: Callable[..., SpareValkey]) -> None:
    server = spare_valkey(durable=True)
    with server.client() as client, serving(client, server.url) as (callers, limiter):
        with callers.running():
            server.kill()
            until(lambda: limiter.breaker.opened > 0)
            server.start()
            until(callers.is_well)
        callers.assert_nobody_was_harmed()
        assert callers.degraded() == {"open", "closed", "local"}


def test_a_silent_store_costs_a_budget_and_no_reply_goes_astray(valkey: redis.Redis, proxy: Proxy) -> None:
    with serving(valkey, proxy.url, budget_ms=250) as (callers, limiter):
        with callers.running():
            proxy.blackhole()
            until(lambda: limiter.breaker.opened > 0)
            proxy.heal()
            until(callers.is_well)
        callers.assert_nobody_was_harmed()


def test_a_slow_store_is_waited_for_within_the_budget_only(valkey: redis.Redis, proxy: Proxy) -> None:
    with serving(valkey, proxy.url, budget_ms=2_000) as (callers, limiter):
        proxy.delay(0.005)
        with callers.running():
            until(lambda: len(callers.answers) > 60)
        assert callers.degraded() == set()
        proxy.delay(5)
        with callers.running():
            until(lambda: limiter.breaker.opened > 0)
        proxy.heal()
        until(callers.is_well)
        callers.assert_nobody_was_harmed()


CHECK = head("POST", "/v1/check", "Content-Length: 2") + b"{}"
# What the attackers send, one after another; they read nothing.
ATTACKS = (
    b"POST /v1/check HTTP/1.1\r\nHost: a\r\nX-Ha",
    CHECK[:-1],
    CHECK * 40,
    head("POST", "/v1/check", "Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n" + CHECK,
    head("GET", "/healthz", "X-Long: " + "x" * 20_000),
    head("POST", "/v1/check", "Content-Length: 900000") + b"x" * 60_000,
    head("POST", "/v1/check", "Transfer-Encoding: chunked") + b"fffffffffffffffff\r\n",
    b"",
)


@contextmanager
def attacked(port: int, attackers: int) -> Iterator[None]:
    """Connections that are opened all the time; the latest few hundred are kept."""
    stop = threading.Event()

    def attack() -> None:
        kept: list[RawClient] = []
        with ExitStack() as stack:
            for sent in cycle(ATTACKS):
                if stop.wait(0.002):
                    return
                try:
                    client = RawClient(port)
                    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                    client.socket.settimeout(1)
                    kept.append(stack.enter_context(client))
                    client.send(sent)
                except OSError:
                    continue
                if len(kept) > 100:
                    kept.pop(0).socket.close()

    threads = [threading.Thread(target=attack) for _ in range(attackers)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(120)


def test_others_are_answered_while_clients_bend_http(valkey: redis.Redis, valkey_url: str) -> None:
    with serving(valkey, valkey_url) as (callers, _):
        with attacked(callers.port, 2), callers.running():
            until(lambda: len(callers.answers) > 300)
        callers.assert_nobody_was_harmed()
        assert callers.degraded() == set()


@pytest.mark.faults_long
def test_others_are_hardly_slower_and_memory_is_bounded_while_clients_bend_http(
    valkey: redis.Redis, valkey_url: str, figures: Callable[[str], None]
) -> None:
    publish(valkey, modes())
    publish_directory(valkey)
    p99_ms, grown_mb = list[float](), list[float]()
    with process(redis_url=valkey_url) as (port, running):
        callers = Callers(port)
        memory = psutil.Process(running.pid).memory_info
        for attackers in (0, 1, 0, 1):
            callers.took_s.clear()
            before = memory().rss
            with attacked(port, attackers), callers.running():
                time.sleep(4)
            p99_ms.append(percentile(callers.took_s, 0.99) * 1_000)
            grown_mb.append((memory().rss - before) / 1_000_000)
    callers.assert_nobody_was_harmed()
    figures(
        f"p99 of others {p99_ms[2]:.1f} ms, beside clients that bend HTTP {p99_ms[3]:.1f} ms; "
        f"+{grown_mb[1]:.1f} MB, then +{grown_mb[3]:.1f} MB"
    )
    assert grown_mb[3] <= MOST_GROWTH_MB
