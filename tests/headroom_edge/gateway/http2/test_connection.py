"""Unary gRPC calls over our own HTTP/2: what is answered, and what is refused, frame by frame."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from headroom_edge.gateway.http2 import frames
from headroom_edge.gateway.http2.calls import Answer, Call, GrpcRefusal
from headroom_edge.gateway.http2.frames import ErrorCode
from tests.headroom_edge.gateway.http2.raw_client import RawClient, ServedHttp2, grpc_message, served


def echo(call: Call, answer: Answer) -> None:
    if call.message == b"refuse":
        answer(GrpcRefusal(3, "Grüße: 100 % refused; send another."))
    elif call.message.startswith(b"large"):
        answer(b"x" * int(call.message[5:]))
    else:
        answer(call.message.upper())


@pytest.fixture
async def server() -> AsyncIterator[ServedHttp2]:
    async with served(echo) as started:
        yield started


async def test_a_call_is_answered_with_head_message_and_trailers(server: ServedHttp2) -> None:
    async with server.client() as client:
        number = client.call(b"hello")
        heard = (await client.answers([number]))[number]
    assert heard.message == b"HELLO"
    assert heard.fields == {":status": "200", "content-type": "application/grpc", "grpc-status": "0"}


async def test_a_message_may_come_in_many_pieces(server: ServedHttp2) -> None:
    async with server.client() as client:
        number, message = client.head(), grpc_message(b"piece by piece")
        for byte in message:
            client.send(frames.DATA, 0, number, bytes((byte,)))
        client.send(frames.DATA, frames.END_STREAM, number)
        assert (await client.answers([number]))[number].message == b"PIECE BY PIECE"


async def test_a_stream_that_goes_on_after_its_end_asks_only_once() -> None:
    asked: list[Call] = []
    async with served(lambda call, _: asked.append(call)) as server, server.client() as client:
        number = client.call(b"once")
        client.send(frames.DATA, frames.END_STREAM, number, grpc_message(b"twice"))
        assert await client.said_goodbye() == ErrorCode.STREAM_CLOSED
    assert [call.message for call in asked] == [b"once"]


async def test_many_calls_on_one_connection_are_answered_each_on_its_stream(server: ServedHttp2) -> None:
    async with server.client() as client:
        numbers = {client.call(b"call-%d" % count): count for count in range(100)}
        heard = await client.answers(numbers)
    assert {number: one.message for number, one in heard.items()} == {n: b"CALL-%d" % c for n, c in numbers.items()}


async def test_frames_may_arrive_byte_by_byte(server: ServedHttp2) -> None:
    async with server.client() as client:
        await client.writer.drain()
        block = client.block()
        whole = frames.frame(frames.HEADERS, frames.END_HEADERS, 1, block)
        whole += frames.frame(frames.DATA, frames.END_STREAM, 1, grpc_message(b"slow"))
        for position in range(len(whole)):
            client.writer.write(whole[position : position + 1])
            await client.writer.drain()
            await asyncio.sleep(0)
        heard = await client.answers([1])
    assert heard[1].message == b"SLOW"


async def test_padding_priority_and_continuations_are_read(server: ServedHttp2) -> None:
    async with server.client() as client:
        block = client.block()
        first, second, third = block[:3], block[3:10], block[10:]
        padded = b"\x04" + b"\0\0\0\0\x10" + first + b"pads"
        client.send(frames.HEADERS, frames.PADDED | frames.PRIORITISED, 1, padded)
        client.send(frames.CONTINUATION, 0, 1, second)
        client.send(frames.CONTINUATION, frames.END_HEADERS, 1, third)
        message = grpc_message(b"padded")
        client.send(frames.DATA, frames.PADDED, 1, b"\x02" + message[:7] + b"\0\0")
        client.send(frames.DATA, frames.END_STREAM, 1, message[7:])
        heard = await client.answers([1])
    assert heard[1].message == b"PADDED"


async def test_a_block_that_repeats_is_read_anew_when_the_table_has_changed(server: ServedHttp2) -> None:
    """The same bytes mean another field after an entry was added in front of the table."""
    paths: list[str] = []

    def note(call: Call, answer: Answer) -> None:
        paths.append(call.fields["x-name"])
        answer(b"")

    async with served(note) as noting, noting.client() as client:
        usual = client.block()
        newest = b"\xbe"  # the newest entry of the dynamic table
        for block in (usual + b"\x40\x06x-name\x03one", newest + usual[:0], b"\x40\x06x-name\x03two", newest):
            fields = block if block.startswith(usual) else _static_usual() + block
            number = client.next_stream
            client.next_stream += 2
            client.send(frames.HEADERS, frames.END_HEADERS, number, fields)
            client.send(frames.DATA, frames.END_STREAM, number, grpc_message(b""))
            await client.answers([number])
    assert paths == ["one", "one", "two", "two"]


def _static_usual() -> bytes:
    """The usual fields as literals that change no table."""
    pairs = ((":method", "POST"), (":path", "/x"), ("content-type", "application/grpc"))
    return b"".join(frames.literal(name, value) for name, value in pairs)


async def test_a_refusal_carries_status_and_sentence(server: ServedHttp2) -> None:
    async with server.client() as client:
        number = client.call(b"refuse")
        heard = (await client.answers([number]))[number]
    assert heard.fields["grpc-status"] == "3"
    assert heard.fields["grpc-message"] == "Gr%C3%BC%C3%9Fe: 100 %25 refused; send another."
    assert heard.is_ended


@pytest.mark.parametrize(
    ("changed", "body", "status"),
    [
        ({":method": "GET"}, grpc_message(b""), "12"),
        ({"content_type": "application/json"}, grpc_message(b""), "12"),
        ({}, grpc_message(b"packed", flag=1), "12"),
        ({}, b"", "13"),
        ({}, grpc_message(b"two")[:-1], "13"),
        ({}, grpc_message(b"two") + b"more", "13"),
        ({}, grpc_message(b"x" * 262_145), "8"),
    ],
)
async def test_what_is_not_one_whole_message_is_refused_and_the_connection_stays(
    server: ServedHttp2, changed: dict[str, str], body: bytes, status: str
) -> None:
    async with server.client() as client:
        number = client.head(**changed)
        pieces = [body[at : at + 16_384] for at in range(0, len(body), 16_384)] or [b""]
        for piece in pieces[:-1]:
            client.send(frames.DATA, 0, number, piece)
        client.send(frames.DATA, frames.END_STREAM, number, pieces[-1])
        heard = (await client.answers([number]))[number]
        after = client.call(b"after")
        assert (await client.answers([after]))[after].message == b"AFTER"
    assert heard.fields["grpc-status"] == status


async def test_an_answer_waits_for_the_windows_and_goes_on_as_they_grow(server: ServedHttp2) -> None:
    async with server.client((frames.INITIAL_WINDOW_SIZE, 0)) as client:
        numbers = [client.call(b"large70000"), client.call(b"large10")]
        for number in numbers:
            client.send(frames.WINDOW_UPDATE, 0, number, (100).to_bytes(4, "big"))
        heard = await client.answers(numbers[1:])
        assert len(heard[numbers[1]].message) == 10
        client.writer.write(frames.settings([(frames.INITIAL_WINDOW_SIZE, 1_000_000)]))
        client.writer.write(frames.window_update(0, 1_000_000))
        rest = (await client.answers(numbers[:1]))[numbers[0]]
    assert rest.is_ended


async def test_the_client_may_send_more_than_one_window_in_all(server: ServedHttp2) -> None:
    async with server.client() as client:
        for _ in range(40):
            number = client.head()
            body = grpc_message(b"y" * 15_000)
            client.send(frames.DATA, frames.END_STREAM, number, body)
            heard = (await client.answers([number]))[number]
            client.writer.write(frames.window_update(0, 20_000))
            assert len(heard.message) == 15_000


async def test_ping_is_acknowledged(server: ServedHttp2) -> None:
    async with server.client() as client:
        client.send(frames.PING, 0, 0, b"12345678")
        while (found := await client.frame()) is not None and found.kind != frames.PING:
            pass
    assert found is not None
    assert (found.flags, found.payload) == (frames.ACK, b"12345678")


async def test_a_server_that_leaves_answers_what_is_under_way(server: ServedHttp2) -> None:
    waiting: asyncio.Queue[Answer] = asyncio.Queue()
    async with served(lambda _, answer: waiting.put_nowait(answer)) as slow, slow.client() as client:
        number = client.call()
        answer = await waiting.get()
        leaving = asyncio.create_task(slow.connections.leave(60))
        await asyncio.sleep(0)
        late = client.call(b"late")
        assert (await client.answers([late]))[late].reset == ErrorCode.REFUSED_STREAM
        answer(b"done")
        assert (await client.answers([number]))[number].message == b"done"
        assert await client.frame() is None
        await leaving
        assert len(slow.connections) == 0


def _unfinished_block(client: RawClient) -> None:
    client.send(frames.HEADERS, 0, 1, client.block())
    client.send(frames.PING, 0, 0, b"12345678")


def _even_stream(client: RawClient) -> None:
    client.head(2)


def _stream_again(client: RawClient) -> None:
    client.head(5)
    client.head(3)


WRONG = {
    "a frame inside a header block": (_unfinished_block, ErrorCode.PROTOCOL_ERROR),
    "an even stream": (_even_stream, ErrorCode.PROTOCOL_ERROR),
    "a stream number that goes down": (_stream_again, ErrorCode.PROTOCOL_ERROR),
    "DATA before HEADERS": (lambda c: c.send(frames.DATA, 1, 1, b""), ErrorCode.PROTOCOL_ERROR),
    "CONTINUATION alone": (lambda c: c.send(frames.CONTINUATION, 4, 1, b""), ErrorCode.PROTOCOL_ERROR),
    "PUSH_PROMISE": (lambda c: c.send(frames.PUSH_PROMISE, 4, 1, b"\0\0\0\2"), ErrorCode.PROTOCOL_ERROR),
    "RST_STREAM of an idle stream": (lambda c: c.send(frames.RST_STREAM, 0, 7, b"\0\0\0\0"), ErrorCode.PROTOCOL_ERROR),
    "a short RST_STREAM": (lambda c: c.send(frames.RST_STREAM, 0, 1, b"\0"), ErrorCode.FRAME_SIZE_ERROR),
    "a short PING": (lambda c: c.send(frames.PING, 0, 0, b"\0"), ErrorCode.FRAME_SIZE_ERROR),
    "PING on a stream": (lambda c: c.send(frames.PING, 0, 1, b"12345678"), ErrorCode.PROTOCOL_ERROR),
    "SETTINGS of 5 bytes": (lambda c: c.send(frames.SETTINGS, 0, 0, b"12345"), ErrorCode.FRAME_SIZE_ERROR),
    "SETTINGS on a stream": (lambda c: c.send(frames.SETTINGS, 0, 1), ErrorCode.PROTOCOL_ERROR),
    "an acknowledgement with a payload": (
        lambda c: c.send(frames.SETTINGS, frames.ACK, 0, b"123456"),
        ErrorCode.FRAME_SIZE_ERROR,
    ),
    "a window of 2^31": (
        lambda c: c.send(frames.SETTINGS, 0, 0, b"\0\4\x80\0\0\0"),
        ErrorCode.FLOW_CONTROL_ERROR,
    ),
    "a frame size of 1": (lambda c: c.send(frames.SETTINGS, 0, 0, b"\0\5\0\0\0\1"), ErrorCode.PROTOCOL_ERROR),
    "a window that grows by 0": (
        lambda c: c.send(frames.WINDOW_UPDATE, 0, 0, bytes(4)),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "a window that grows past 2^31": (
        lambda c: c.send(frames.WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"),
        ErrorCode.FLOW_CONTROL_ERROR,
    ),
    "padding longer than its frame": (
        lambda c: c.send(frames.HEADERS, frames.PADDED | frames.END_HEADERS, 1, b"\x09abc"),
        ErrorCode.PROTOCOL_ERROR,
    ),
    "a header block that is none": (
        lambda c: c.send(frames.HEADERS, frames.END_HEADERS, 1, b"\xff\xff\xff\xff\xff"),
        ErrorCode.COMPRESSION_ERROR,
    ),
    "a frame of 16,385 bytes": (lambda c: c.send(frames.DATA, 0, 1, bytes(16_385)), ErrorCode.FRAME_SIZE_ERROR),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_broken_protocol_ends_the_connection_with_its_code(server: ServedHttp2, wrong: str) -> None:
    send, code = WRONG[wrong]
    async with server.client() as client, server.client() as bystander:
        send(client)
        assert await client.said_goodbye() == code
        number = bystander.call(b"unmoved")
        assert (await bystander.answers([number]))[number].message == b"UNMOVED"


@pytest.mark.parametrize(
    "opening", [b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"\x16\x03\x01\x02\x00", b"PRI * HTTP/2.0\r\n\r\nXX"]
)
async def test_another_protocol_is_turned_away_at_once(server: ServedHttp2, opening: bytes) -> None:
    client = await RawClient.connect(server.port)
    client.writer.write(opening)
    assert await client.said_goodbye() == ErrorCode.PROTOCOL_ERROR
    client.close()


async def test_frames_before_settings_end_the_connection(server: ServedHttp2) -> None:
    client = await RawClient.connect(server.port)
    client.writer.write(frames.PREFACE)
    client.call()
    assert await client.said_goodbye() == ErrorCode.PROTOCOL_ERROR
    client.close()
