"""What a connection may cost before its caller is known."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import repeat
from typing import Any

import pytest
import redis

from headroom_edge import AsyncLimiter
from headroom_edge.asgi import Receive, Scope, Send
from headroom_edge.gateway import bounds, connections
from headroom_edge.gateway.bounds import HEAD_BYTES, HEAD_FIELDS, BoundedProtocol
from headroom_edge.gateway.connections import Connections
from headroom_edge.gateway.protocol import CheckProtocol
from headroom_edge.gateway.server import SMALL_BODY, Gateway
from tests.faults.raw_client import RawClient, head, status_of
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.world import ACME, PATIENCE_SECONDS, Client, served

HALF = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Hal"
WHOLE = head("GET", "/healthz")
CHUNK = b"x" * 65_536


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(connections, "SWEEP_SECONDS", 0.05)


@pytest.fixture(params=[BoundedProtocol, CheckProtocol], ids=["asgi", "server"])
def gateway(request: pytest.FixtureRequest, store: redis.Redis, valkey_url: str) -> Iterator[Client]:
    with served(Gateway(AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS)), request.param) as client:
        yield client


def padded(size: int) -> bytes:
    """A whole head of this many bytes."""
    short = head("GET", "/healthz", "X-Long: ")
    return head("GET", "/healthz", "X-Long: " + "x" * (size - len(short)))


@pytest.mark.parametrize(("size", "status"), [(HEAD_BYTES - 100, 200), (HEAD_BYTES + 100, 431)])
def test_a_head_has_its_size(gateway: Client, size: int, status: int) -> None:
    with RawClient(gateway.port, padded(size).replace(b"Host", b"Connection: close\r\nHost")) as client:
        assert status_of(client.rest()) == status


@pytest.mark.parametrize(("count", "status"), [(HEAD_FIELDS - 2, 200), (HEAD_FIELDS - 1, 431), (20_000, 431)])
def test_a_head_has_its_number_of_fields(gateway: Client, count: int, status: int) -> None:
    fields = head("GET", "/healthz", "Connection: close", *repeat("a: b", count))
    with RawClient(gateway.port) as client:
        assert status_of(client.send_all([fields])) == status


def test_a_line_without_end_is_refused(gateway: Client) -> None:
    with RawClient(gateway.port, HALF) as client:
        said = client.send_all(repeat(CHUNK, 320))
    assert status_of(said) == 431
    assert b'"code":"head-too-large"' in said


def test_a_head_behind_another_request_is_bounded_too(gateway: Client) -> None:
    with RawClient(gateway.port, WHOLE + HALF) as client:
        while client.send(CHUNK):
            pass


def test_fields_behind_a_body_are_bounded(gateway: Client) -> None:
    with RawClient(gateway.port, head("POST", "/healthz", "Transfer-Encoding: chunked") + b"0\r\nX-Late: ") as client:
        while client.send(CHUNK):
            pass


def test_many_requests_at_once_on_one_connection_end_it(gateway: Client) -> None:
    check = head("POST", "/v1/check", "Content-Length: 2") + b"{}"
    with RawClient(gateway.port, check * 2_000) as client:
        assert client.rest().count(b"HTTP/1.1 401") <= bounds.PIPELINED_REQUESTS + 1
    with RawClient(gateway.port, check * 5 + head("GET", "/healthz", "Connection: close")) as client:
        said = client.rest()
    assert (said.count(b"HTTP/1.1 401"), said.count(b"HTTP/1.1 200")) == (5, 1)


@pytest.mark.usefixtures("hurried")
def test_half_a_request_is_closed_and_others_are_answered(gateway: Client) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(RawClient(gateway.port)) for _ in range(10)]
        halves = [stack.enter_context(RawClient(gateway.port, HALF)) for _ in range(40)]
        assert gateway.get("/healthz").status == 200
        assert {status_of(client.rest()) for client in halves} == {408}
        assert {client.rest() for client in silent} == {b""}


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("path", ["/v1/check", "/healthz"])
def test_a_body_that_drips_is_closed(gateway: Client, path: str) -> None:
    with RawClient(gateway.port, head("POST", path, "Content-Length: 100000")) as client:
        said = client.rest() if path == "/v1/check" else b""
        while client.send(b"x"):
            time.sleep(0.02)
    assert status_of(said) == (408 if path == "/v1/check" else 0)


@pytest.mark.usefixtures("hurried")
def test_an_idle_connection_is_closed(gateway: Client) -> None:
    with RawClient(gateway.port, WHOLE) as client:
        assert client.rest().count(b"HTTP/1.1 200") == 1


@pytest.mark.usefixtures("hurried")
def test_a_connection_whose_body_ends_after_its_response_is_closed_too(gateway: Client) -> None:
    with RawClient(gateway.port, head("POST", "/healthz", "Content-Length: 10")) as client:
        assert status_of(client.answer()) == 200
        client.send(b"x" * 10)
        client.rest()


class Clock:
    """Stands in for the event loop: time passes when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[Any] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Any) -> None:
        self.due.append(call)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        calls, self.due = self.due, []
        for call in calls:
            call()


def test_a_connection_that_is_used_stays() -> None:
    clock, closed = Clock(), list[Any]()
    ours = Connections(clock)  # type: ignore[arg-type] # all that it needs of a loop

    class Waiting:
        def give_up(self) -> None:
            del ours.waiting[self]  # type: ignore[arg-type]
            closed.append(self)

    used, idle = Waiting(), Waiting()
    waiting: dict[Any, float] = ours.waiting
    waiting[used] = waiting[idle] = ours.now
    for _ in range(5):
        clock.pass_time(connections.PATIENCE_SECONDS / 3)
        waiting.pop(used)
        waiting[used] = ours.now
    assert closed == [idle]
    clock.pass_time(connections.PATIENCE_SECONDS)
    assert closed == [idle, used]


def test_at_the_most_connections_the_one_that_waits_longest_goes(
    gateway: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 20)
    with ExitStack() as stack:
        halves = [stack.enter_context(RawClient(gateway.port, HALF)) for _ in range(60)]
        for _ in range(5):
            assert gateway.get("/healthz").status == 200
        said = [client.rest() for client in halves[:40]]
        assert {status_of(answer) for answer in said} <= {0, 408}
        assert not halves[-1].has_news()


def test_a_caller_is_known_before_a_large_body_is_read(gateway: Client) -> None:
    fields = ("Content-Length: 1000000", "Authorization: Bearer hr_nobody")
    with RawClient(gateway.port, head("POST", "/v1/check", *fields) + b"x" * (SMALL_BODY + 1)) as client:
        assert b"HTTP/1.1 401" in client.socket.recv(65_536)
    known = head("POST", "/v1/check", "Content-Length: 1000000", f"Authorization: Bearer {ACME}", "Connection: close")
    with RawClient(gateway.port, known) as client:
        client.send(b" " * 1_000_000)
        assert b'"code":"invalid-json"' in client.rest()


async def swallow(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def room_for_nine(monkeypatch: pytest.MonkeyPatch) -> None:
    each = SMALL_BODY + connections.REQUEST_BYTES
    monkeypatch.setitem(connections.UNFINISHED_BYTES, False, 10 * each)


def unfinished(size: int) -> bytes:
    return head("POST", "/", "Content-Length: 1000000") + b"x" * size


@pytest.mark.usefixtures("room_for_nine")
@pytest.mark.parametrize(
    "half",
    [unfinished(SMALL_BODY), unfinished(SMALL_BODY + 1), padded(HEAD_BYTES)[:-2]],
    ids=["small", "large", "head"],
)
def test_unfinished_requests_together_have_a_bound(half: bytes) -> None:
    with served(swallow, BoundedProtocol) as server, ExitStack() as stack:
        clients = [stack.enter_context(RawClient(server.port, half)) for _ in range(30)]
        said = [client.rest() for client in clients[:18]]  # the last ones may overtake each other
        assert {status_of(answer) for answer in said} == {503}
        assert all(b"retry-after: 1" in answer for answer in said)
        assert server.send("POST", "/", b"small").status == 204
        assert not clients[-1].has_news()


@pytest.mark.usefixtures("room_for_nine")
def test_requests_that_wait_for_the_server_do_not_make_room() -> None:
    has_time = threading.Event()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        await asyncio.to_thread(has_time.wait, PATIENCE_SECONDS)
        await swallow(scope, receive, send)

    with served(application, BoundedProtocol) as server, ExitStack() as stack:
        half = unfinished(SMALL_BODY + 1)
        clients = [stack.enter_context(RawClient(server.port, half)) for _ in range(9)]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while status_of(one_more(server.port, half)) != 503 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert time.monotonic() < deadline
        assert not any(client.has_news() for client in clients)
        has_time.set()


@pytest.mark.usefixtures("hurried")
def test_a_body_that_waits_for_the_server_is_not_too_slow() -> None:
    has_time = threading.Event()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        await asyncio.to_thread(has_time.wait, PATIENCE_SECONDS)
        await swallow(scope, receive, send)

    size = 2 * SMALL_BODY
    with served(application, BoundedProtocol) as server:
        request = head("POST", "/", f"Content-Length: {size}", "Connection: close") + b"x" * (SMALL_BODY + 1)
        with RawClient(server.port, request) as client:
            assert not client.has_news(4 * connections.PATIENCE_SECONDS)
            client.send(b"x" * (SMALL_BODY - 1))
            has_time.set()
            assert status_of(client.rest()) == 204


def one_more(port: int, request: bytes) -> bytes:
    with RawClient(port, request) as client:
        return client.rest() if client.has_news(0.2) else b""


async def pour(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while (await no_news(receive)) is None:
        await send({"type": "http.response.body", "body": CHUNK, "more_body": True})


async def no_news(receive: Receive) -> Any:
    try:
        message = await asyncio.wait_for(receive(), 0.001)
    except TimeoutError:
        return None
    return message if message["type"] == "http.disconnect" else None


@pytest.mark.usefixtures("hurried")
def test_a_client_that_does_not_read_is_closed() -> None:
    ended = list[str]()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        await pour(scope, receive, send)
        ended.append(scope["path"])

    with served(application, BoundedProtocol) as server, RawClient(server.port, head("GET", "/unread")):
        deadline = time.monotonic() + 60
        while not ended and time.monotonic() < deadline:
            time.sleep(0.02)
    assert ended == ["/unread"]


@pytest.mark.usefixtures("hurried")
def test_a_short_response_that_is_not_read_does_not_keep_its_connection() -> None:
    """It fits into the buffer that is written later, so the application is done and writing never pauses."""
    lost = threading.Event()

    class Narrow(BoundedProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn
            super().connection_made(transport)
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2_048)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.set()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 50_000})

    with served(application, Narrow) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        client.connect(("127.0.0.1", server.port))
        client.sendall(head("GET", "/unread"))
        assert lost.wait(PATIENCE_SECONDS)


def test_a_request_with_another_behind_it_is_told_that_its_client_has_gone() -> None:
    began, told = threading.Event(), list[str]()
    ended = threading.Event()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        began.set()
        await receive()
        told.append((await receive())["type"])
        ended.set()

    with served(application, BoundedProtocol) as server:
        with RawClient(server.port, head("GET", "/first") + head("GET", "/second")) as client:
            assert began.wait(PATIENCE_SECONDS)
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert ended.wait(PATIENCE_SECONDS)
    assert told == ["http.disconnect"]
