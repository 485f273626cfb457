"""F31: clients that abuse HTTP/2. Memory stays bounded, and everybody else is answered."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Final

import psutil
import pytest
import redis

from headroom_edge.gateway.http2.frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    frame,
    literal,
)
from headroom_edge.gateway.rls.service import METHOD, SERVICE
from tests.headroom_edge.gateway.rls.asking import LIST, OK, RlsClient
from tests.headroom_edge.gateway.rls.test_process import alone
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.world import publish_world

PATH: Final = f"/{SERVICE}/{METHOD}"
CANCEL: Final = struct.pack(">I", 8)
# A client that is not read any more may wait for this time. It is given up then, which proves as much.
STUCK_SECONDS: Final = 0.5
MOST_BYTES: Final = 30_000_000


CALL: Final = (
    b"\x83\x86"  # POST, http
    + literal(":path", PATH)
    + literal(":authority", "here")
    + literal("content-type", "application/grpc")
    + literal("te", "trailers")
)
BODY: Final = b"\0\0\0\0\0"  # an empty message


def rapid_reset(times: int) -> Iterator[bytes]:
    for stream in range(1, 2 * times, 2):
        yield frame(HEADERS, END_HEADERS, stream, CALL) + frame(RST_STREAM, 0, stream, CANCEL)


def continuation_flood(times: int) -> Iterator[bytes]:
    yield frame(HEADERS, 0, 1, CALL)
    for number in range(times):
        yield frame(CONTINUATION, 0, 1, literal(f"x-{number}", "y" * 900))


def header_bomb(times: int) -> Iterator[bytes]:
    """One long field is put into the table; each further byte repeats it."""
    yield frame(HEADERS, 0, 1, CALL + b"\x40" + literal("x", "y" * 3_900)[1:])
    for _ in range(times // 100):
        yield frame(CONTINUATION, 0, 1, b"\xbe" * 1_000)
    yield frame(CONTINUATION, END_HEADERS, 1)


def zero_windows(times: int) -> Iterator[bytes]:
    yield frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, 0))
    for stream in range(1, 2 * times, 2):
        yield frame(HEADERS, END_HEADERS, stream, CALL) + frame(DATA, END_STREAM, stream, BODY)


def half_closed(times: int) -> Iterator[bytes]:
    """Calls whose message never comes."""
    for stream in range(1, 2 * times, 2):
        yield frame(HEADERS, END_HEADERS, stream, CALL)


def ping_flood(times: int) -> Iterator[bytes]:
    for number in range(times):
        yield frame(PING, 0, 0, struct.pack(">Q", number)) + frame(SETTINGS, 0, 0)


ATTACKS: Final[dict[str, Callable[[int], Iterator[bytes]]]] = {
    attack.__name__: attack
    for attack in (rapid_reset, continuation_flood, header_bomb, zero_windows, half_closed, ping_flood)
}


def attacked(port: int, frames: Iterator[bytes]) -> socket.socket:
    """A connection on which all was sent that the server took. Nothing that it says is read."""
    client = socket.create_connection(("127.0.0.1", port), 60)
    client.settimeout(STUCK_SECONDS)
    sent = 0
    with suppress(OSError):
        client.sendall(PREFACE + frame(SETTINGS, 0, 0))
        for some in frames:
            client.sendall(some)
            sent += len(some)
            if sent > MOST_BYTES:
                break
    return client


def grown_bytes(rls: RlsClient, process: psutil.Process, connections: int, times: int, attack: str) -> int:
    """How much the server has grown at most, while it is attacked and others go on asking."""
    rls.ask(LIST)
    before = most = process.memory_info().rss
    with ExitStack() as stack:
        for _ in range(connections):
            stack.enter_context(attacked(rls.port, ATTACKS[attack](times)))
            assert rls.ask(LIST).overall_code == OK
            most = max(most, process.memory_info().rss)
    assert rls.ask(LIST).overall_code == OK
    return most - before


@pytest.fixture
def running(store: redis.Redis, valkey_url: str) -> Iterator[tuple[RlsClient, psutil.Process]]:
    publish_world(store, limit("many", "fixed_window", limit=1_000_000, window="1h"))
    with alone(valkey_url) as (rls, process):
        yield rls, psutil.Process(process.pid)


def test_abuse_costs_little_and_harms_nobody_else(running: tuple[RlsClient, psutil.Process]) -> None:
    grown = {attack: grown_bytes(*running, connections=2, times=2_000, attack=attack) for attack in ATTACKS}
    assert max(grown.values()) < 30_000_000, grown


@pytest.mark.faults_long
@pytest.mark.parametrize("attack", ATTACKS)
def test_abuse_for_a_while(
    running: tuple[RlsClient, psutil.Process], attack: str, figures: Callable[[str], None]
) -> None:
    grown = grown_bytes(*running, connections=10, times=50_000, attack=attack)
    figures(f"{attack}: 10 connections, {grown / 1_048_576:.1f} MB more")
    assert grown < 30_000_000
