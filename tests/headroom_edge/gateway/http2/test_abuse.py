"""F31, the half of HTTP/2: rapid resets, floods of CONTINUATION, oversized headers, zero windows, half-closed streams.

Each must end with the abuser's connection, within bounds that are counted here, while another connection is served.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from headroom_edge.gateway.http2 import connection, connections, frames
from headroom_edge.gateway.http2.calls import Answer, Call
from headroom_edge.gateway.http2.connection import RESETS, STREAMS
from headroom_edge.gateway.http2.frames import ErrorCode
from tests.headroom_edge.gateway.http2.raw_client import RawClient, grpc_message, served

SHORT_SECONDS = 0.3


class Undecided:
    """Calls that get no reply before the test gives one."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.asked = asyncio.Event()

    def __call__(self, call: Call, answer: Answer) -> None:
        if call.message == b"at once":
            answer(b"fine")
        elif call.message == b"a lot":
            answer(b"x" * 65_000)
        else:
            self.answers.append(answer)
            self.asked.set()


async def is_served(client: RawClient) -> bool:
    number = client.call(b"at once")
    return (await client.answers([number]))[number].message == b"fine"


async def send_all(client: RawClient, send: Callable[[], object], times: int) -> None:
    """Stops early when the server has hung up."""
    for count in range(times):
        send()
        if count % 100 == 0:
            try:
                await client.writer.drain()
            except ConnectionError:
                return


async def test_rapid_resets_start_few_calls_and_end_the_connection() -> None:
    undecided = Undecided()

    def ask_and_reset(client: RawClient) -> None:
        number = client.call(b"costly")
        client.send(frames.RST_STREAM, 0, number, bytes(4))

    async with served(undecided) as server, server.client() as bystander, server.client() as client:
        await send_all(client, lambda: ask_and_reset(client), 5_000)
        assert await client.said_goodbye() in (ErrorCode.ENHANCE_YOUR_CALM, None)
        assert 0 < len(undecided.answers) <= min(STREAMS, RESETS + 1)
        assert await is_served(bystander)
        for answer in undecided.answers:
            answer(b"late")  # to nobody
        assert await is_served(bystander)


async def test_calls_under_way_are_bounded_although_their_streams_were_reset() -> None:
    undecided = Undecided()
    async with served(undecided) as server, server.client() as client:
        numbers = [client.call(b"costly") for _ in range(STREAMS + 10)]
        heard = await client.answers(numbers[STREAMS:])
        assert {one.reset for one in heard.values()} == {ErrorCode.REFUSED_STREAM}
        assert len(undecided.answers) == STREAMS
        for number in numbers[:10]:
            client.send(frames.RST_STREAM, 0, number, bytes(4))
        refused = client.call(b"one more")
        assert (await client.answers([refused]))[refused].reset == ErrorCode.REFUSED_STREAM
        for answer in undecided.answers:
            answer(b"")
        await client.answers(numbers[10:STREAMS])
        assert await is_served(client)


async def test_a_flood_of_continuations_ends_the_connection() -> None:
    async with served(Undecided()) as server, server.client() as bystander, server.client() as client:
        client.send(frames.HEADERS, 0, 1, client.block())
        await send_all(client, lambda: client.send(frames.CONTINUATION, 0, 1), 1_000)
        assert await client.said_goodbye() in (ErrorCode.ENHANCE_YOUR_CALM, None)
        assert await is_served(bystander)


async def test_an_oversized_header_list_ends_the_connection_however_small_it_is_packed() -> None:
    async with served(Undecided()) as server, server.client() as bystander, server.client() as client:
        remembered = b"\x40" + frames.literal("x", "v" * 4_000)[1:]  # the table takes it, and then one byte repeats it
        client.send(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 1, remembered)
        client.send(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 3, b"\xbe" * 1_000)
        assert await client.said_goodbye() == ErrorCode.ENHANCE_YOUR_CALM
        assert await is_served(bystander)


async def test_a_connection_sends_no_more_unfinished_bytes_than_its_window() -> None:
    async with served(Undecided()) as server, server.client() as bystander, server.client() as client:
        for _ in range(40):
            number = client.head()
            client.send(frames.DATA, 0, number, grpc_message(b"z" * 16_000)[:16_000])
        assert await client.said_goodbye() == ErrorCode.FLOW_CONTROL_ERROR
        assert await is_served(bystander)


def _floods() -> dict[str, bytes]:
    window = frames.INITIAL_WINDOW_SIZE.to_bytes(2, "big")
    settings = b"".join(window + size.to_bytes(4, "big") for size in range(2_000))
    return {
        "settings in one frame": frames.frame(frames.SETTINGS, 0, 0, settings),
        "frames of settings": 2_000 * frames.settings([(frames.INITIAL_WINDOW_SIZE, 0)]),
        "windows that grow by 1": 2_000 * frames.window_update(0, 1),
        "pings": 2_000 * frames.frame(frames.PING, 0, 0, b"12345678"),
        "empty frames of data": 2_000 * frames.frame(frames.DATA, 0, 1),
        "frames of an unknown kind": 2_000 * frames.frame(99, 0, 0),
    }


@pytest.mark.parametrize("flood", _floods())
async def test_a_flood_of_frames_without_calls_ends_the_connection(flood: str) -> None:
    async with served(Undecided()) as server, server.client() as bystander, server.client() as client:
        for _ in range(STREAMS):
            client.head()
        client.writer.write(_floods()[flood])
        assert await client.said_goodbye() in (ErrorCode.ENHANCE_YOUR_CALM, None)
        assert await is_served(bystander)
        assert server.connections.held == 0


async def test_header_lists_of_open_streams_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte of a block may stand for four thousand of its list."""
    monkeypatch.setattr(connection, "UNFINISHED", 1_000_000)
    async with served(Undecided()) as server, server.client() as bystander, server.client() as client:
        remembered = b"\x40" + frames.literal("x", "v" * 3_900)[1:]
        client.send(frames.HEADERS, frames.END_HEADERS, 1, remembered)
        for number in range(3, 2 * STREAMS, 2):
            client.send(frames.HEADERS, frames.END_HEADERS, number, b"\xbe" * 4)
        assert await client.said_goodbye() == ErrorCode.ENHANCE_YOUR_CALM
        assert await is_served(bystander)
        assert server.connections.held == 0


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE_SECONDS", SHORT_SECONDS)
    monkeypatch.setattr(connections, "SWEEP_SECONDS", SHORT_SECONDS / 10)


def _half_closed(client: RawClient) -> None:
    client.head()


def _half_a_message(client: RawClient) -> None:
    client.send(frames.DATA, 0, client.head(), grpc_message(b"half")[:6])


def _half_a_frame(client: RawClient) -> None:
    client.writer.write(frames.frame(frames.PING, 0, 0, b"12345678")[:11])


def _half_a_block(client: RawClient) -> None:
    client.send(frames.HEADERS, 0, 1, client.block())


def _zero_window(client: RawClient) -> None:
    client.writer.write(frames.settings([(frames.INITIAL_WINDOW_SIZE, 0)]))
    client.call(b"at once")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("leave", [_half_closed, _half_a_message, _half_a_frame, _half_a_block, _zero_window])
async def test_what_is_left_unfinished_is_given_up(leave: Callable[[RawClient], None]) -> None:
    async with served(Undecided()) as server, server.client() as client:
        assert await is_served(client)
        leave(client)
        assert await client.said_goodbye() == ErrorCode.ENHANCE_YOUR_CALM
        assert len(server.connections) == 0


@pytest.mark.usefixtures("impatient")
async def test_a_client_that_sends_nothing_is_given_up_and_an_idle_one_stays() -> None:
    async with served(Undecided()) as server, server.client() as idle:
        assert await is_served(idle)
        silent = await RawClient.connect(server.port)
        assert await silent.said_goodbye() == ErrorCode.ENHANCE_YOUR_CALM
        silent.close()
        assert await is_served(idle)


def _asking(number: int) -> bytes:
    fields = ((":method", "POST"), (":path", "/x"), ("content-type", "application/grpc"))
    block = b"".join(frames.literal(name, value) for name, value in fields)
    message = frames.frame(frames.DATA, frames.END_STREAM, number, grpc_message(b"a lot"))
    return frames.frame(frames.HEADERS, frames.END_HEADERS, number, block) + message


@pytest.mark.usefixtures("impatient")
async def test_a_client_that_reads_nothing_is_cut_off() -> None:
    async with served(Undecided()) as server:
        loop = asyncio.get_running_loop()
        with socket.create_connection(("127.0.0.1", server.port)) as deaf:
            deaf.setblocking(False)
            opening = frames.PREFACE + frames.settings([(frames.INITIAL_WINDOW_SIZE, 1_000_000)])
            opening += frames.window_update(0, 1_000_000_000)
            asked = b"".join(_asking(number) for number in range(1, 2 * STREAMS, 2))
            await loop.sock_sendall(deaf, opening + asked)
            for _ in range(6_000):
                await asyncio.sleep(0.01)
                if not len(server.connections):
                    break
            assert len(server.connections) == 0


async def test_the_oldest_idle_connection_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 2)
    undecided = Undecided()
    async with served(undecided) as server, server.client() as busy:
        busy.call(b"costly")
        await undecided.asked.wait()
        async with server.client() as idle:
            assert await is_served(idle)
            async with server.client() as latest:
                assert await is_served(latest)
                assert await idle.said_goodbye() == ErrorCode.ENHANCE_YOUR_CALM
        undecided.answers[0](b"")
