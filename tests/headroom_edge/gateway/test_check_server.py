"""What only the check server has to get right: heads it knows, clients that leave or do not read, its process."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from config.data_folders import ROOT
from headroom_edge import AsyncLimiter, keys
from headroom_edge.gateway import connections, protocol
from headroom_edge.gateway.protocol import HEADS_KEPT, CheckProtocol
from headroom_edge.gateway.server import Gateway
from headroom_edge.recent_cache import RecentCache
from headroom_edge.store.pipeline import Pipeline
from tests.faults.proxy import Proxy
from tests.faults.raw_client import RawClient, head, status_of
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.limiter.both import until
from tests.headroom_edge.world import ACME, PATIENCE_SECONDS, STRANGER, ZENITH, Client, revoke, served
from tests.processes import wait_for
from tests.valkeys import SpareValkey, free_port

LIST = b'{"endpoint": "rides:list"}'


def post(token: str, body: bytes = LIST, *fields: str) -> bytes:
    return head("POST", "/v1/check", f"Authorization: Bearer {token}", f"Content-Length: {len(body)}", *fields) + body


@pytest.fixture
def heads(monkeypatch: pytest.MonkeyPatch) -> RecentCache[bytes, protocol.KnownHead]:
    """None is known yet."""
    empty = RecentCache[bytes, protocol.KnownHead](HEADS_KEPT)
    monkeypatch.setattr(protocol, "_heads", empty)
    return empty


@pytest.fixture
def server(heads: RecentCache[bytes, protocol.KnownHead], store: redis.Redis, valkey_url: str) -> Iterator[Client]:
    with served(Gateway(AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS)), CheckProtocol) as client:
        yield client


def ask(client: RawClient, request: bytes) -> bytes:
    client.send(request)
    return client.answer()


def test_a_known_head_is_its_own_callers(server: Client, heads: RecentCache[bytes, protocol.KnownHead]) -> None:
    with RawClient(server.port) as client:
        said = [ask(client, post(token)) for token in (ACME, ACME, ZENITH, STRANGER, ACME, ZENITH)]
    assert [status_of(answer) for answer in said] == [200, 200, 200, 401, 200, 200]
    assert [b'"tenant":"acme"' in answer for answer in said] == [True, True, False, False, True, False]
    assert [b'"tenant":"zenith"' in answer for answer in said] == [False, False, True, False, False, True]
    assert len(heads) == 2


def test_a_known_head_of_a_revoked_key_is_refused(server: Client, store: redis.Redis) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    with RawClient(server.port) as client:
        assert status_of(ask(client, post(ACME))) == 200
        revoke(store, ACME)
        while status_of(ask(client, post(ACME))) != 401:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_strangers_and_odd_requests_fill_no_memory(
    server: Client, heads: RecentCache[bytes, protocol.KnownHead]
) -> None:
    odd = [
        post(STRANGER),
        post(ACME, LIST, "X-Long: " + "x" * 4_000),
        post(ACME, LIST, "Expect: 100-continue"),
        post(ACME, b""),
        post(ACME) + post(ACME),
        head("GET", "/healthz"),
        head("POST", "/v1/check", f"Authorization: Bearer {ACME}", "Transfer-Encoding: chunked") + b"1a\r\n" + LIST
        + b"\r\n0\r\n\r\n",
        head("POST", "/nope", f"Authorization: Bearer {ACME}", "Content-Length: 2") + b"{}",
    ]  # fmt: skip
    for request in odd:
        with RawClient(server.port, request) as client:
            assert client.answer()
    with RawClient(server.port) as client:
        for number in range(70):
            ask(client, post(STRANGER, LIST, f"X-Number: {number}"))
    assert len(heads) == 0


def test_a_known_head_with_less_or_more_behind_it_is_read_like_any_other(server: Client) -> None:
    with RawClient(server.port) as client:
        assert status_of(ask(client, post(ACME))) == 200
        client.send(post(ACME)[:-5])
        time.sleep(0.01)
        assert status_of(ask(client, LIST[-5:])) == 200
        client.send(post(ACME) + head("GET", "/healthz", "Connection: close"))
        assert client.rest().count(b"HTTP/1.1 200") == 2


def is_deciding(gateway: Gateway) -> bool:
    pipeline = gateway.limiter._pipeline
    assert isinstance(pipeline, Pipeline)
    return pipeline._stream is not None and len(pipeline._stream.pending) > 0


@contextmanager
def without_writes(store: redis.Redis) -> Iterator[None]:
    store.client_pause(AMPLE_MS, all=False)
    try:
        yield
    finally:
        store.client_unpause()


def test_a_client_that_leaves_in_mid_decision_disturbs_nobody(store: redis.Redis, valkey_url: str) -> None:
    gateway = Gateway(AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS))
    with served(gateway, CheckProtocol) as server, RawClient(server.port) as other:
        assert b'"remaining":4' in ask(other, post(ACME))
        with without_writes(store), RawClient(server.port, post(ACME)) as client:
            until(lambda: is_deciding(gateway))
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # What was asked is counted, and its reply is nobody else's.
        assert b'"remaining":2' in ask(other, post(ACME))


def send_for_ever(client: socket.socket) -> None:
    while True:
        client.sendall(head("POST", "/v1/check", "Content-Length: 2") + b"{}")  # a 401, which needs no store


def test_a_client_that_pipelines_and_does_not_read_is_closed(server: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 1.0)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        client.settimeout(PATIENCE_SECONDS)
        client.connect(("127.0.0.1", server.port))
        with pytest.raises(OSError):  # noqa: PT011 - a reset, or a broken pipe
            send_for_ever(client)
        assert server.get("/healthz").status == 200


@contextmanager
def process(*options: str, redis_url: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    port = free_port()
    environment = {"PATH": os.environ["PATH"], "HEADROOM_BUDGET_MS": str(AMPLE_MS), "REDIS_URL": redis_url}
    command = [sys.executable, "-m", "headroom_edge.gateway", "--port", str(port), *options]
    running = subprocess.Popen(command, env=environment, cwd=ROOT)
    try:
        wait_for(port, running)
        yield port, running
    finally:
        running.terminate()
        running.wait(PATIENCE_SECONDS)


def is_listed(store: redis.Redis, pid: int) -> bool:
    """Whether the process is among the enforcers. Another test's may be there too."""
    listed: Any = store.zrange(keys.enforcers(), 0, -1)
    return any(enforcer.endswith(b"-%d" % pid) for enforcer in listed)


@pytest.mark.parametrize("stop", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.sweep)])
def test_a_stopped_server_answers_what_it_was_asked_and_says_goodbye(
    store: redis.Redis, valkey_server: SpareValkey, stop: signal.Signals
) -> None:
    with Proxy("127.0.0.1", valkey_server.port) as wire, process(redis_url=wire.url) as (port, running):
        with RawClient(port, post(ACME)) as client:
            assert status_of(client.answer()) == 200
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not is_listed(store, running.pid):  # its first heartbeat
                assert time.monotonic() < deadline
                time.sleep(0.05)
            wire.delay(0.3)
            client.send(post(ACME))
            time.sleep(0.1)
            running.send_signal(stop)
            said = client.rest()
            wire.delay(0)
        assert status_of(said) == 200
        assert b"connection: close" in said
        running.wait(PATIENCE_SECONDS)
    until(lambda: not is_listed(store, running.pid))


def test_several_workers_serve_one_port(store: redis.Redis, valkey_url: str) -> None:
    with process("--workers", "2", redis_url=valkey_url) as (port, _):
        answers = [Client(port).post("/v1/check", LIST, authorization=f"Bearer {ACME}").json() for _ in range(6)]
    assert [answer["allowed"] for answer in answers] == [True] * 5 + [False]


def test_it_serves_a_socket_that_listens_already(store: redis.Redis, valkey_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        environment = {"PATH": os.environ["PATH"], "HEADROOM_BUDGET_MS": str(AMPLE_MS), "REDIS_URL": valkey_url}
        command = [sys.executable, "-m", "headroom_edge.gateway", "--fd", str(listener.fileno())]
        running = subprocess.Popen(command, env=environment, cwd=ROOT, pass_fds=[listener.fileno()])
        try:
            answer = Client(listener.getsockname()[1]).post("/v1/check", LIST, authorization=f"Bearer {ACME}")
            assert answer.json()["remaining"] == 4
        finally:
            running.terminate()
            running.wait(PATIENCE_SECONDS)
