"""Same bytes in, same answer out: the check server against the Gateway under ASGI, each before a store of its own."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headroom_edge import AsyncLimiter
from headroom_edge.gateway import connections
from headroom_edge.gateway.bad_tokens import BadTokens
from headroom_edge.gateway.bounds import BoundedProtocol
from headroom_edge.gateway.protocol import CheckProtocol
from headroom_edge.gateway.server import LONGEST_BODY, SMALL_BODY, Gateway
from tests.faults.raw_client import RawClient, head, status_of
from tests.headroom_edge.conftest import AMPLE_MS, LOOPBACK
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.world import ACME, BANKRUPT, MACHINE, READER, STRANGER, ZENITH, publish_world, served
from tests.valkeys import SpareValkey

LAST = head("GET", "/healthz", "Connection: close")
LIST = b'{"tenant": "acme", "endpoint": "rides:list"}'
ALLOWED = limit("hourly", "fixed_window", limit=1_000, window="1h")
FEW = limit("few", "fixed_window", "user", limit=2, window="1h")
# What may differ between two moments, and the date.
_TIMES = re.compile(rb'(_after_ms":|;t=|try again in |wait |Retry-After":"|retry-after: )\d+')
_DATE = re.compile(rb"date: [^\r]+\r\n")


@dataclass(frozen=True)
class Pair:
    """Two servers, with equal stores and equal histories."""

    gateways: tuple[Gateway, Gateway]
    ports: tuple[int, int]
    stores: tuple[redis.Redis, redis.Redis]

    def reset(self) -> None:
        for store in self.stores:
            store.flushdb()
            publish_world(store, ALLOWED, endpoints={"rides:get": (FEW,)})

    def answer(self, *pieces: bytes) -> bytes:
        """What both say to these bytes, until they close the connection."""
        for gateway in self.gateways:
            gateway.bad_tokens = BadTokens()
        server, asgi = (said(port, pieces) for port in self.ports)
        assert plain(server) == plain(asgi)
        assert server.count(b"\r\ndate: ") == asgi.count(b"\r\ndate: ")
        return server


def said(port: int, pieces: tuple[bytes, ...]) -> bytes:
    with RawClient(port) as client:
        for number, piece in enumerate(pieces):
            if number:
                time.sleep(0.002)  # so that they mostly arrive apart; they may arrive together all the same
            client.send(piece)
        return client.rest()


def plain(answer: bytes) -> bytes:
    return _TIMES.sub(rb"\1N", _DATE.sub(b"", answer))


@pytest.fixture(scope="module")
def pair(valkey_server: SpareValkey) -> Iterator[Pair]:
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(connections, "PATIENCE_SECONDS", 0.5)
        patch.setattr(connections, "SWEEP_SECONDS", 0.05)
        gateways, ports, stores = [], [], []
        for database, protocol in enumerate((CheckProtocol, BoundedProtocol)):
            url = f"{valkey_server.url.rpartition('/')[0]}/{database}"
            stores.append(stack.enter_context(redis.Redis.from_url(url)))
            gateways.append(Gateway(AsyncLimiter.from_url(url, budget_ms=AMPLE_MS), LOOPBACK))
            ports.append(stack.enter_context(served(gateways[-1], protocol)).port)
        made = Pair((gateways[0], gateways[1]), (ports[0], ports[1]), (stores[0], stores[1]))
        made.reset()
        yield made


def post(path: str, body: bytes, *fields: str, token: str = ACME) -> bytes:
    length = [] if any(field.lower().startswith("transfer") for field in fields) else [f"Content-Length: {len(body)}"]
    return head("POST", path, f"Authorization: Bearer {token}", *length, *fields) + body


def authz(*fields: str, query: str = "", method: str = "GET") -> bytes:
    return head(method, f"/v1/authz{query}", *fields)


NGINX = ("X-Original-Method: GET", "X-Original-URI: /v1/rides/7?x=1")
TRAEFIK = ("X-Forwarded-Method: GET", "X-Forwarded-Uri: /v1/rides/7")
RIDE = b'{"tenant": "acme", "endpoint": "rides:get", "subject": {"user": "u1", "ip": "2001:db8::1"}}'
TABLE = {
    "check": post("/v1/check", LIST),
    "check of a machine": post("/v1/check", RIDE, token=MACHINE) * 4,
    "the same head with another body": post("/v1/check", LIST) + post("/v1/check", LIST.replace(b"list", b"tsil")),
    "many checks": post("/v1/check", b'{"checks": [%s, %s]}' % (LIST, LIST)),
    "by key and path": post("/v1/check", b'{"api_key": "%s", "method": "GET", "path": "/v1/rides"}' % ZENITH.encode()),
    "a stranger's key": post("/v1/check", b'{"api_key": "%s", "endpoint": "rides:get"}' % STRANGER.encode()),
    "foreign tenant": post("/v1/check", b'{"tenant": "zenith", "endpoint": "rides:list"}'),
    "suspended": post("/v1/check", b'{"endpoint": "rides:list"}', token=BANKRUPT),
    "no scope": post("/v1/check", LIST, token=READER),
    "unknown token": post("/v1/check", LIST, token=STRANGER),
    "no token": head("POST", "/v1/check", "Content-Length: 2") + b"{}",
    "no body": post("/v1/check", b""),
    "no json": post("/v1/check", b"{"),
    "wrong fields": post("/v1/check", b'{"tenant": 1}') + post("/v1/check", b'{"x": 1}'),
    "cost": post("/v1/check", b'{"endpoint": "rides:list", "cost": 5.0}') + post("/v1/check", b'{"cost": -1}'),
    "a cost that the store refuses": post("/v1/check", b'{"endpoint": "rides:list", "cost": 1000000000}'),
    "release": post("/v1/release", b'{"endpoint": "rides:list", "holder": "h"}'),
    "release without holder": post("/v1/release", LIST),
    "release of a stranger": post("/v1/release", LIST, token=STRANGER),
    "wrong method": head("GET", "/v1/check") + head("HEAD", "/v1/release") + head("OPTIONS", "/v1/check"),
    "health": head("GET", "/healthz") + head("HEAD", "/healthz") + head("POST", "/healthz", "Content-Length: 1") + b"x",
    "no such path": head("GET", "/") + head("HEAD", "/nope") + post("/v1/check/", LIST) + post("/v1/checks", LIST),
    "query and escapes": post("/v1/check?a=b", LIST) + post("/%761/check", LIST) + post("/v1//check", LIST),
    "absolute form": head("GET", "http://other/healthz"),
    "authz": authz(f"X-API-Key: {ACME}", *NGINX),
    "authz until denied": authz(f"X-API-Key: {ZENITH}", *NGINX) * 4,
    "authz for traefik until denied": authz(f"X-API-Key: {BANKRUPT}", *TRAEFIK, query="?proxy=traefik") * 2,
    "authz for envoy": authz(f"X-API-Key: {ACME}", query="?proxy=envoy&path=/v1/rides/7?x=%23y", method="PUT"),
    "authz for envoy without a path": authz(f"X-API-Key: {ACME}", query="?proxy=envoy"),
    "authz without key": authz(*NGINX),
    "authz of a stranger": authz(f"X-API-Key: {STRANGER}", *NGINX, method="HEAD"),
    "authz without the original": authz(f"X-API-Key: {ACME}"),
    "authz of an unknown proxy": authz(query="?proxy=squid"),
    "authz with a body": authz(f"X-API-Key: {ACME}", *NGINX, "Content-Length: 3", method="POST") + b"abc",
    "authz from an address": authz(f"X-API-Key: {ACME}", *NGINX, "X-Forwarded-For: 203.0.113.9, 127.0.0.1"),
    "chunks": post("/v1/check", b"5\r\n%s\r\n%x;x=y\r\n%s\r\n0\r\nA: b\r\n\r\n" % (LIST[:5], len(LIST) - 5, LIST[5:]),
                   "Transfer-Encoding: chunked"),
    "continue": post("/v1/check", LIST, "Expect: 100-continue"),
    "continue, but no such path": post("/nope", LIST, "Expect: 100-continue"),
    "upgrade": post("/v1/check", LIST, "Connection: Upgrade", "Upgrade: h2c"),
    "pipelined": (post("/v1/check", LIST) + authz(f"X-API-Key: {ACME}", *NGINX) + post("/nope", LIST)) * 2,
    "an empty line in front": b"\r\n" + post("/v1/check", LIST),
    "a body of 20 KB": post("/v1/check", LIST + b" " * (SMALL_BODY + 4_000)),
    "a body of 20 KB of a stranger": post("/v1/check", LIST + b" " * (SMALL_BODY + 4_000), token=STRANGER),
    "odd bytes in a field": head("GET", "/healthz", "X-Odd: \xe9") + post("/v1/check", LIST, "X-\x7e: ~"),
}  # fmt: skip


@pytest.mark.parametrize("sent", TABLE.values(), ids=TABLE)
def test_each_request_has_the_same_answer(pair: Pair, sent: bytes) -> None:
    # Twice on the same connection, in one piece and in two: the second time a head is known.
    pair.answer(sent, sent, LAST)
    pair.answer(sent[:40], sent[40:] + sent[:-1], sent[-1:] + LAST)


@pytest.mark.parametrize("token", [ACME, STRANGER])
@pytest.mark.parametrize("size", [LONGEST_BODY - 100, LONGEST_BODY + 1])
def test_a_large_body_has_the_same_answer(pair: Pair, size: int, token: str) -> None:
    sent = post("/v1/check", LIST + b" " * (size - len(LIST)), token=token)
    pair.answer(sent, LAST)
    pair.answer(sent[:40], sent[40:] + LAST)


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_a_connection_that_is_not_kept_ends_with_the_same_answer(pair: Pair, version: bytes) -> None:
    for sent in (post("/v1/check", LIST, "Connection: close"), post("/nope", b"x", "Connection: close"), LAST):
        answer = pair.answer(sent.replace(b"HTTP/1.1", b"HTTP/" + version))
        assert answer.count(b"connection: close") == 1


# Requests that two readers might read differently. Each is refused, and nothing behind it is taken for a request.
SMUGGLED = {
    "length and chunks": post("/v1/check", b"0\r\n\r\n", "Transfer-Encoding: chunked", "Content-Length: 5"),
    "chunks and length": head("POST", "/v1/check", "Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "two lengths": post("/v1/check", LIST, "Content-Length: 3"),
    "a list of lengths": head("POST", "/v1/check", "Content-Length: 2, 2") + b"{}",
    "a length with a sign": head("POST", "/v1/check", "Content-Length: +2") + b"{}",
    "a length in hex": head("POST", "/v1/check", "Content-Length: 0x2") + b"{}",
    "a folded field": head("POST", "/v1/check", "X-A: b\r\n Content-Length: 2", "Content-Length: 0"),
    "a space before the colon": head("POST", "/v1/check", "Content-Length : 2") + b"{}",
    "a field without a name": head("POST", "/v1/check", ": 2"),
    "a NUL in a field": head("POST", "/v1/check", "X-A: b\0c"),
    "a NUL in a name": head("POST", "/v1/check", "X-A\0: b"),
    "a bare LF after a field": head("POST", "/v1/check", "X-A: b\nContent-Length: 2") + b"{}",
    "a bare CR in a field": head("POST", "/v1/check", "X-A: b\rContent-Length: 2") + b"{}",
    "a chunk of no size": post("/v1/check", b"x\r\n\r\n", "Transfer-Encoding: chunked"),
    "a chunk of negative size": post("/v1/check", b"-1\r\n\r\n0\r\n\r\n", "Transfer-Encoding: chunked"),
    "a chunk size that overflows": post("/v1/check", b"f" * 17 + b"\r\n", "Transfer-Encoding: chunked"),
    "a chunk that is longer than its size": post("/v1/check", b"1\r\nab\r\n0\r\n\r\n", "Transfer-Encoding: chunked"),
    "an encoding behind chunks": post("/v1/check", b"0\r\n\r\n", "Transfer-Encoding: chunked, gzip"),
    "an unknown encoding": post("/v1/check", b"0\r\n\r\n", "Transfer-Encoding: xchunked"),
    "an unknown version": b"POST /v1/check HTTP/3.0\r\nHost: a\r\n\r\n",
    "a space in the target": b"POST /v1/check x HTTP/1.1\r\nHost: a\r\n\r\n",
    "no target": b"POST HTTP/1.1\r\nHost: a\r\n\r\n",
}


@pytest.mark.parametrize("sent", SMUGGLED.values(), ids=SMUGGLED)
def test_an_ambiguous_request_is_refused_with_what_is_behind_it(pair: Pair, sent: bytes) -> None:
    answer = pair.answer(sent + post("/nope", b"") + LAST)
    assert status_of(answer) == 400
    assert b"404" not in answer
    # Behind a request that was answered, and one whose head is known.
    check = post("/v1/check", LIST)
    for port in pair.ports:
        assert status_of(said(port, (check, LAST))) == 200
    assert b"404" not in pair.answer(check + sent + post("/nope", b"") + LAST)


@pytest.mark.parametrize("is_split", [False, True])
def test_fields_behind_a_body_are_not_fields_of_the_head(pair: Pair, is_split: bool) -> None:
    """A proxy may pass trailers on. A credential or a path there must not count (RFC 9110, section 6.5.1)."""
    start = head("POST", "/v1/check", "Transfer-Encoding: chunked")
    chunks = b"%x\r\n%s\r\n0\r\nAuthorization: Bearer %s\r\n\r\n" % (len(LIST), LIST, ACME.encode())
    pieces = (start, chunks + LAST) if is_split else (start + chunks + LAST,)
    answers = [plain(said(port, pieces)) for port in pair.ports]
    assert answers[0] == answers[1]
    assert answers[0].startswith(b"HTTP/1.1 401 ")


def test_a_client_that_waits_for_100_is_told_to_go_on(pair: Pair) -> None:
    for port in pair.ports:
        with RawClient(port, post("/v1/check", LIST, "Expect: 100-continue")[: -len(LIST)]) as client:
            assert client.answer() == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.send(LIST + LAST)
            assert client.rest().count(b"HTTP/1.1 200") == 2


def test_a_request_that_does_not_arrive_is_ended_the_same_way(pair: Pair) -> None:
    assert status_of(pair.answer(post("/v1/check", LIST)[:-1])) == 408
    assert pair.answer(post("/v1/check", LIST) + b"GET /hea").count(b"HTTP/1.1 ") == 2


tokens = st.sampled_from([ACME, MACHINE, ZENITH, BANKRUPT, READER, STRANGER, "hr_x", ""])
bodies = st.one_of(
    st.sampled_from([LIST, RIDE, b"{}", b"", b"[]", b'{"endpoint": "rides:list"}', b'{"checks": [{}]}', b"\xff"]),
    st.builds(lambda size: LIST + b" " * size, st.integers(0, 2 * SMALL_BODY)),
    st.binary(max_size=40),
)
fields = st.lists(
    st.sampled_from([*NGINX, *TRAEFIK, f"X-API-Key: {ZENITH}", "Expect: 100-continue", "X-A:", "x-b:  c "]),
    unique=True,
    max_size=5,
)
paths = st.sampled_from(["/v1/check"] * 4 + ["/v1/release", "/v1/authz", "/v1/authz?proxy=caddy", "/healthz", "/nope"])
methods = st.sampled_from(["POST"] * 4 + ["GET", "HEAD", "PUT"])


def in_chunks(body: bytes, size: int) -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


@st.composite
def requests(draw: Callable[[st.SearchStrategy], object]) -> bytes:
    body, token, more = draw(bodies), draw(tokens), draw(fields)
    assert isinstance(body, bytes)
    assert isinstance(more, list)
    lines = [*more, *([f"Authorization: Bearer {token}"] if token else [])]
    if draw(st.booleans()) and draw(st.booleans()):
        size = draw(st.integers(7, 5_000))
        assert isinstance(size, int)
        return head(str(draw(methods)), str(draw(paths)), *lines, "Transfer-Encoding: chunked") + in_chunks(body, size)
    return head(str(draw(methods)), str(draw(paths)), *lines, f"Content-Length: {len(body)}") + body


def split(sent: bytes, at: list[int]) -> list[bytes]:
    ends = sorted({position % (len(sent) + 1) for position in at})
    return [sent[start:end] for start, end in zip([0, *ends], [*ends, len(sent)], strict=True) if start < end]


def compare_some(pair: Pair, count: int) -> None:
    @settings(max_examples=count, suppress_health_check=list(HealthCheck))
    @given(st.lists(requests(), min_size=1, max_size=6), st.lists(st.integers(0, 200_000), max_size=4))
    def compare(sent: list[bytes], at: list[int]) -> None:
        pair.answer(*split(b"".join(sent) + LAST, at))

    with pytest.MonkeyPatch.context() as patch:
        # Every request is complete, so no connection has to be given up: only a stall would end one.
        patch.setattr(connections, "PATIENCE_SECONDS", 60.0)
        compare()


def compare_damaged(pair: Pair, count: int) -> None:
    """In one piece: whether an answer goes out before the fault is found depends on the moment otherwise."""

    @settings(max_examples=count, suppress_health_check=list(HealthCheck))
    @given(requests(), st.integers(0, 400), st.binary(min_size=1, max_size=3), requests())
    def compare(damaged: bytes, at: int, with_what: bytes, behind: bytes) -> None:
        # Whether a request in front of nonsense is counted depends on the server; neither answers it.
        pair.reset()
        place = at % len(damaged)
        pair.answer(damaged[:place] + with_what + damaged[place + 1 :] + behind + LAST)

    compare()


def test_requests_split_and_pipelined_anyhow_have_the_same_answers(pair: Pair) -> None:
    compare_some(pair, 60)


def test_damaged_requests_have_the_same_answers(pair: Pair) -> None:
    compare_damaged(pair, 40)


@pytest.mark.sweep
def test_many_requests_split_pipelined_or_damaged_have_the_same_answers(pair: Pair) -> None:
    compare_some(pair, 2_000)
    compare_damaged(pair, 500)
