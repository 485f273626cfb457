"""Requests that bend HTTP: each is answered, or its connection is closed. Nothing is lost, nothing is read twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import repeat

import pytest
import redis

from headroom_edge import AsyncLimiter
from headroom_edge.asgi import Message
from headroom_edge.gateway.bounds import BoundedProtocol
from headroom_edge.gateway.protocol import CheckProtocol
from headroom_edge.gateway.server import Gateway
from tests.faults.raw_client import RawClient, head, status_of
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.world import ACME, Client, served

WHOLE = head("GET", "/healthz")
ONE_LAST = head("GET", "/healthz", "Connection: close")


@pytest.fixture(params=[BoundedProtocol, CheckProtocol], ids=["asgi", "server"])
def gateway(request: pytest.FixtureRequest, store: redis.Redis, valkey_url: str) -> Iterator[Client]:
    with served(Gateway(AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS)), request.param) as client:
        yield client


def statuses(said: bytes) -> list[int]:
    return [int(part[:3]) for part in said.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.parametrize(
    ("hosts", "version", "status"),
    [(0, "1.1", 400), (1, "1.1", 200), (2, "1.1", 400), (0, "1.0", 200), (2, "1.0", 400)],
)
def test_a_request_names_one_host(gateway: Client, hosts: int, version: str, status: int) -> None:
    lines = [f"GET /healthz HTTP/{version}", *repeat("Host: 127.0.0.1", hosts), "Connection: close", "", ""]
    with RawClient(gateway.port, "\r\n".join(lines).encode()) as client:
        said = client.rest()
    assert status_of(said) == status
    assert status == 200 or f"The request has {hosts or 'no'} Host fields; send one.".encode() in said


def test_a_second_host_does_not_cost_the_answer_in_front_of_it(gateway: Client) -> None:
    with RawClient(gateway.port, WHOLE + head("GET", "/healthz", "Host: other") + ONE_LAST) as client:
        said = client.rest()
    assert statuses(said) == [200, 400]


def wishing(protocol: str, path: str, body: bytes = b"") -> bytes:
    length = [f"Content-Length: {len(body)}"] if body else []
    return head("POST", path, "Connection: Upgrade", f"Upgrade: {protocol}", *length) + body


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_the_wish_for_another_protocol_loses_no_body_and_no_request(gateway: Client, protocol: str) -> None:
    check = b'{"tenant": "acme"}'  # without a token: 401, and no other request
    with RawClient(
        gateway.port, wishing(protocol, "/v1/check", check) * 3 + wishing(protocol, "/") + ONE_LAST
    ) as client:
        said = client.rest()
    assert statuses(said) == [401, 401, 401, 404, 200]
    with RawClient(gateway.port, wishing(protocol, "/v1/check", check)[:-5]) as client:
        client.send(check[-5:] + ONE_LAST)
        assert statuses(client.rest()) == [401, 200]
    with RawClient(gateway.port, wishing(protocol, "/v1/check", WHOLE) + ONE_LAST) as client:
        assert statuses(client.rest()) == [401, 200]


def test_a_known_caller_that_wishes_for_another_protocol_is_served(gateway: Client) -> None:
    answer = gateway.post(
        "/v1/check", {"endpoint": "rides:list"}, authorization=f"Bearer {ACME}", connection="Upgrade", upgrade="h2c"
    )
    assert (answer.status, answer.json()["allowed"]) == (200, True)


def test_a_tunnel_is_refused_with_what_is_behind_it(gateway: Client) -> None:
    with RawClient(gateway.port, head("CONNECT", "/healthz") + WHOLE) as client:
        said = client.rest()
    assert statuses(said) == [400]
    assert b"opens no tunnels" in said


@pytest.mark.parametrize("sent", [b"nonsense\r\n\r\n", b"GET http:///// HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01"])
def test_what_is_not_http_is_told_so(gateway: Client, sent: bytes) -> None:
    with RawClient(gateway.port, sent) as client:
        said = client.rest()
    assert status_of(said) == 400
    assert b"The request is not valid HTTP" in said


def test_a_request_that_is_answered_gets_no_second_answer(gateway: Client) -> None:
    with RawClient(gateway.port, head("POST", "/healthz", "Transfer-Encoding: chunked") + b"2\r\n{}\r\n") as client:
        assert status_of(client.answer()) == 200
        client.send(b"no size\r\n")
        assert client.rest() == b""


@pytest.mark.parametrize("left", [b"", b'{"endpoint": "rides:list"}'])
def test_a_check_whose_client_leaves_before_its_end_is_not_counted(
    store: redis.Redis, valkey_url: str, left: bytes
) -> None:
    check = b'{"endpoint": "rides:list"}'
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/check",
        "headers": [(b"authorization", b"Bearer " + ACME.encode())],
    }

    async def ask(gateway: Gateway, *messages: Message) -> list[Message]:
        heard, said = iter(messages), list[Message]()

        async def receive() -> Message:
            return next(heard)

        async def send(message: Message) -> None:
            said.append(message)

        await gateway(scope, receive, send)
        return said

    async def main() -> list[Message]:
        gateway = Gateway(AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS))
        parts = [{"type": "http.request", "body": left, "more_body": True}] if left else []
        await ask(gateway, *parts, {"type": "http.disconnect"})
        said = await ask(gateway, {"type": "http.request", "body": check})
        await gateway.limiter.close()
        return said

    assert json.loads(asyncio.run(main())[1]["body"])["remaining"] == 4
