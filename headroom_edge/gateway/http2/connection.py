"""One HTTP/2 connection of a gRPC client. Calls are unary: one message in, one message or a refusal out.

What a client may cost is bounded: the streams it opens and the calls under way, the bytes of unfinished messages, its
header blocks, how often it resets what it asked for, and how long it leaves something unfinished or unread. A client
that goes beyond gets GOAWAY and is cut off. No call needs a task or a future: the handler gets a function to call with
the reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias, cast

from headroom_edge.gateway.http2 import frames
from headroom_edge.gateway.http2.calls import (
    LARGEST_MESSAGE,
    PREFIX_BYTES,
    TOO_LARGE,
    Call,
    GrpcRefusal,
    Handler,
    Reply,
    Stream,
    fault_of,
)
from headroom_edge.gateway.http2.connections import UNFINISHED, Http2Connections
from headroom_edge.gateway.http2.frames import ErrorCode, Http2Error
from headroom_edge.gateway.http2.header_blocks import LARGEST_LIST, HeaderBlocks

STREAMS: Final = 256  # open at once, and calls under way
LARGEST_BLOCK: Final = 16_384  # bytes of HEADERS and its CONTINUATIONs
CONTINUATIONS: Final = 8  # of one block
WINDOW: Final = 524_288  # bytes of unfinished messages on one connection
LARGEST_WRITE: Final = 65_536
# Frames that carry no call (SETTINGS, PING, WINDOW_UPDATE, empty DATA …), besides some for each answer.
CONTROL_FRAMES: Final = 1_000
CONTROL_FRAMES_PER_ANSWER: Final = 8
SETTINGS_AT_ONCE: Final = 32
STREAM_BYTES: Final = 1_024  # what an open stream takes, besides its fields and its message
RESETS: Final = 200  # more than were answered

HeaderBlock: TypeAlias = tuple[int, int, list[bytes]]  # stream, flags, parts


class Http2Connection(asyncio.Protocol):
    def __init__(self, handler: Handler, connections: Http2Connections) -> None:
        self._handler = handler
        self._all = connections
        self._loop = connections.loop
        self._transport: asyncio.Transport
        self._peer = ""
        self._buffer = b""
        self._has_preface = self._has_settings = self._is_ended = self._is_leaving = False
        self._blocks = HeaderBlocks()
        self._streams: dict[int, Stream] = {}
        self._latest = 0  # the highest stream that the client has opened
        self._under_way = 0  # calls whose reply has not come, also of streams that were reset
        self._answered = self._resets = self._control_frames = 0
        self._block: HeaderBlock | None = None  # that goes on in the next frame
        self._unfinished = 0  # bytes of messages that have not ended
        self.held = 0  # bytes that open streams take
        self._credit = 0  # bytes that the client may send again, but was not told yet
        self._window, self._first_window = frames.FIRST_WINDOW, frames.FIRST_WINDOW
        self._blocked: dict[int, Stream] = {}  # streams with an answer that waits for a window
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._flushing = False
        self._begun_since: float | None = connections.now  # of a preface, a frame or a header block
        self._unread_since: float | None = None

    # The connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's do not inherit from it
        peer = transport.get_extra_info("peername")
        self._peer = peer[0] if isinstance(peer, tuple) else ""
        if not self._all.add(self):
            self._transport.abort()
            return
        self._write(
            frames.settings(
                (
                    (frames.MAX_CONCURRENT_STREAMS, STREAMS),
                    (frames.INITIAL_WINDOW_SIZE, LARGEST_MESSAGE + frames.LARGEST_FRAME),
                    (frames.MAX_HEADER_LIST_SIZE, LARGEST_LIST),
                )
            )
        )
        self._write(frames.window_update(0, WINDOW - frames.FIRST_WINDOW))

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_ended = True
        self._all.drop(self)
        self._streams, self._blocked = {}, {}

    def pause_writing(self) -> None:
        # A client that does not read its answers may ask nothing more.
        self._transport.pause_reading()
        self._unread_since = self._all.now

    def resume_writing(self) -> None:
        self._transport.resume_reading()
        self._unread_since = None
        if self._buffer:
            self._loop.call_soon(self.data_received, b"")

    def leave(self) -> None:
        """Answer what is under way, then close."""
        self._is_leaving = True
        if not self._is_ended:
            self._write(frames.goaway(self._latest, ErrorCode.NO_ERROR))
            self._close_if_done()

    def give_up(self, sentence: str) -> None:
        self._end(Http2Error(ErrorCode.ENHANCE_YOUR_CALM, sentence))

    @property
    def is_idle(self) -> bool:
        return not self._streams and not self._under_way

    def has_waited_since(self, moment: float) -> bool:
        """Whether the client has left something unfinished or unread since then."""
        for since in (self._begun_since, self._unread_since):
            if since is not None and since <= moment:
                return True
        waits = (stream.waits_since for stream in self._streams.values())
        return any(since is not None and since <= moment for since in waits)

    def _end(self, error: Http2Error) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        self._out.append(frames.goaway(self._latest, error.code, str(error)))
        self._flush()
        self._all.drop(self)
        self._transport.close()
        # The client may never read the rest of what it was sent.
        self._loop.call_later(1.0, self._transport.abort)

    def _close_if_done(self) -> None:
        if self._is_leaving and self.is_idle and not self._is_ended:
            self._is_ended = True
            self._flush()
            self._all.drop(self)
            self._transport.close()

    # What arrives.

    def data_received(self, data: bytes) -> None:
        if self._is_ended:
            return
        buffer = self._buffer + data if self._buffer else data
        try:
            read = self._read(buffer)
        except Http2Error as error:
            self._end(error)
            return
        self._buffer = buffer[read:]
        if not self._buffer and self._block is None and self._has_settings:
            self._begun_since = None
        elif self._begun_since is None or (read and self._block is None):
            self._begun_since = self._all.now

    def _read(self, buffer: bytes) -> int:
        """Handle every whole frame, and return how many bytes they had."""
        at, size = 0, len(buffer)
        if not self._has_preface:
            if not frames.PREFACE.startswith(buffer[: len(frames.PREFACE)]):
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "this port speaks HTTP/2 for gRPC only")
            if size < len(frames.PREFACE):
                return 0
            self._has_preface, at = True, len(frames.PREFACE)
        # What arrived together may ask for more than the client then reads; the rest waits here.
        while size - at >= frames.HEADER_BYTES and not self._is_ended and self._unread_since is None:
            length = buffer[at] << 16 | buffer[at + 1] << 8 | buffer[at + 2]
            if length > frames.LARGEST_FRAME:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "a frame is over 16,384 bytes")
            end = at + frames.HEADER_BYTES + length
            if end > size:
                break
            number = int.from_bytes(buffer[at + 5 : at + 9], "big") & frames.LARGEST_WINDOW
            self._frame(buffer[at + 3], buffer[at + 4], number, buffer[at + frames.HEADER_BYTES : end])
            at = end
        return at

    def _frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        block = self._block
        if block is not None:
            self._continue(block, kind, flags, number, payload)
        elif kind == frames.DATA:
            self._data(flags, number, payload)
        elif kind == frames.HEADERS:
            self._headers(flags, number, payload)
        elif not self._has_settings and kind != frames.SETTINGS:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "the first frame must be SETTINGS")
        elif kind == frames.PUSH_PROMISE or kind == frames.CONTINUATION:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a client may not send this frame here")
        else:
            self._count_control()
            control = _CONTROL.get(kind)  # frames of unknown kinds are ignored
            if control is not None:
                control(self, flags, number, payload)

    def _headers(self, flags: int, number: int, payload: bytes) -> None:
        payload = frames.unpadded(flags, payload)
        if flags & frames.PRIORITISED:
            if len(payload) < 5:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "HEADERS are too short")
            payload = payload[5:]
        if flags & frames.END_HEADERS:
            self._open(number, flags, payload)
        else:
            self._block = (number, flags, [payload])

    def _continue(self, block: HeaderBlock, kind: int, flags: int, number: int, payload: bytes) -> None:
        opened, first_flags, parts = block
        if kind != frames.CONTINUATION or number != opened:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a header block must arrive whole before other frames")
        parts.append(payload)
        if len(parts) > CONTINUATIONS or sum(map(len, parts)) > LARGEST_BLOCK:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "the header block is over 16,384 bytes or in too many frames")
        if flags & frames.END_HEADERS:
            self._block = None
            self._open(opened, first_flags, b"".join(parts))

    def _open(self, number: int, flags: int, block: bytes) -> None:
        """The table must see every block, also one whose stream is refused."""
        head = self._blocks.read(block)
        if not self._has_settings:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "the first frame must be SETTINGS")
        stream = self._streams.get(number)
        if stream is not None:  # trailers of a request, which gRPC does not use
            _refuse_more(stream)
            if not flags & frames.END_STREAM:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "trailers must end their stream")
            self._ask(stream)
            return
        if number % 2 == 0 or number <= self._latest:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "stream numbers are odd and only go up")
        self._latest = number
        if self._is_leaving or len(self._streams) >= STREAMS or self._under_way >= STREAMS:
            self._count_reset()
            self._write(frames.rst_stream(number, ErrorCode.REFUSED_STREAM))
            return
        stream = self._streams[number] = Stream(number, head.fields, self._first_window, self._all.now)
        self._hold(stream, head.size + STREAM_BYTES)
        if flags & frames.END_STREAM:
            self._ask(stream)

    def _data(self, flags: int, number: int, payload: bytes) -> None:
        size = len(payload)
        stream = self._streams.get(number)
        if stream is None:
            if number > self._latest or number == 0:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "DATA came before HEADERS")
            self._count_reset()
            self._give_credit(size)  # of a stream that has ended in the meantime
            return
        _refuse_more(stream)
        if not size:
            self._count_control()
        stream.received += size
        self._unfinished += size
        if self._unfinished > WINDOW:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "more bytes are unfinished than this connection may send")
        piece = frames.unpadded(flags, payload) if flags & frames.PADDED else payload
        if not stream.body:
            stream.body = piece
        else:  # most messages come in one piece; many small ones must not be copied again and again
            stream.body = stream.body if isinstance(stream.body, bytearray) else bytearray(stream.body)
            stream.body += piece
        if flags & frames.END_STREAM:
            self._ask(stream)
            return
        self._hold(stream, size)
        if not self._is_ended and len(stream.body) > LARGEST_MESSAGE + PREFIX_BYTES:
            self._release(stream)
            self._refuse(stream, TOO_LARGE)
            self._write(frames.rst_stream(number, ErrorCode.NO_ERROR))  # the rest of it need not be sent

    def _release(self, stream: Stream) -> None:
        """The message is read, or not wanted: the client may send as many bytes again."""
        self._unfinished -= stream.received
        self._give_credit(stream.received)
        stream.body, stream.received = b"", 0

    def _hold(self, stream: Stream, size: int) -> None:
        stream.held += size
        self.held += size
        self._all.held += size
        if self._all.held > UNFINISHED:
            self._all.make_room()

    def _drop(self, number: int) -> Stream | None:
        """The stream has ended: what it took is free."""
        stream = self._streams.pop(number, None)
        if stream is not None and not self._is_ended:  # the end of a connection frees all that it held
            self.held -= stream.held
            self._all.held -= stream.held
        return stream

    def _give_credit(self, size: int) -> None:
        self._credit += size
        if self._credit > WINDOW // 2:
            self._write(frames.window_update(0, self._credit))
            self._credit = 0

    def _count_control(self) -> None:
        self._control_frames += 1
        if self._control_frames > CONTROL_FRAMES + CONTROL_FRAMES_PER_ANSWER * self._answered:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "too many frames came that carry no call")

    def _count_reset(self) -> None:
        self._resets += 1
        if self._resets > RESETS + self._answered:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "too many streams were reset or refused")

    # Frames that control the connection.

    def _on_rst_stream(self, flags: int, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "RST_STREAM must have 4 bytes")
        if number == 0 or number > self._latest:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a stream is reset that was never opened")
        self._count_reset()
        stream = self._drop(number)
        if stream is not None:
            self._blocked.pop(number, None)
            self._release(stream)
            self._close_if_done()

    def _on_settings(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "SETTINGS belong to the connection")
        if flags & frames.ACK:
            if payload:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS is empty")
            return
        if len(payload) % 6:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS have 6 bytes each")
        if len(payload) > 6 * SETTINGS_AT_ONCE:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "a frame has more than 32 settings")
        before = self._first_window
        self._has_settings = True
        for at in range(0, len(payload), 6):
            self._set(int.from_bytes(payload[at : at + 2], "big"), int.from_bytes(payload[at + 2 : at + 6], "big"))
        if self._first_window != before:
            for stream in self._streams.values():
                stream.window += self._first_window - before
            self._send_blocked()
        self._write(frames.frame(frames.SETTINGS, frames.ACK, 0))

    def _set(self, key: int, value: int) -> None:
        if key == frames.MAX_FRAME_SIZE and not frames.LARGEST_FRAME <= value < 2**24:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "the largest frame is 16,384 to 16,777,215 bytes")
        if key != frames.INITIAL_WINDOW_SIZE:
            return
        if value > frames.LARGEST_WINDOW:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "a window is at most 2,147,483,647 bytes")
        self._first_window = value

    def _on_ping(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "PING belongs to the connection")
        if len(payload) != 8:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "PING must have 8 bytes")
        if not flags & frames.ACK:
            self._write(frames.frame(frames.PING, frames.ACK, 0, payload))

    def _on_goaway(self, flags: int, number: int, payload: bytes) -> None:
        self._is_leaving = True
        self._close_if_done()

    def _on_priority(self, flags: int, number: int, payload: bytes) -> None:
        if len(payload) != 5:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "PRIORITY must have 5 bytes")

    def _on_window_update(self, flags: int, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "WINDOW_UPDATE must have 4 bytes")
        increment = int.from_bytes(payload, "big") & frames.LARGEST_WINDOW
        stream = self._streams.get(number)
        if number == 0:
            was_used_up = self._window <= 0
            self._window = _grown(self._window, increment)
            if was_used_up:
                self._send_blocked()
        elif stream is not None:
            stream.window = _grown(stream.window, increment)
            if number in self._blocked:
                self._send_rest(stream)
        elif number > self._latest:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a window grows before its stream was opened")

    # Calls and their answers.

    def _ask(self, stream: Stream) -> None:
        body, stream.waits_since, stream.is_asked = stream.body, None, True
        problem = fault_of(stream.fields, body)
        if stream.received:
            self._release(stream)
        if problem is not None:
            self._refuse(stream, problem)
            return
        self._under_way += 1
        self._handler(
            Call(stream.fields, bytes(body[PREFIX_BYTES:]), self._peer), lambda reply: self._answer(stream, reply)
        )

    def _answer(self, stream: Stream, reply: Reply) -> None:
        self._under_way -= 1
        if self._is_ended or stream.number not in self._streams:
            self._close_if_done()  # the client has reset the stream, or has gone
            return
        self._answered += 1
        if isinstance(reply, GrpcRefusal):
            self._refuse(stream, reply)
            return
        message = b"\x00%s%s" % (len(reply).to_bytes(4, "big"), reply)
        size = len(message)
        if size <= stream.window and size <= self._window and not self._blocked:
            self._window -= size
            number = stream.number
            self._drop(number)
            self._write(frames.response_head(number) + frames.data(number, message) + frames.trailers(number))
        else:
            self._write(frames.response_head(stream.number))
            stream.unsent, stream.waits_since = message, self._all.now
            self._blocked[stream.number] = stream
            self._send_rest(stream)
        if self._is_leaving:
            self._close_if_done()

    def _refuse(self, stream: Stream, refusal: GrpcRefusal) -> None:
        self._drop(stream.number)
        self._write(frames.refusal(stream.number, refusal.status, refusal.sentence))
        self._close_if_done()

    def _send_blocked(self) -> None:
        """Send as much of the waiting answers as the windows allow, the oldest first."""
        for stream in list(self._blocked.values()):
            if self._window <= 0:
                return
            self._send_rest(stream)

    def _send_rest(self, stream: Stream) -> None:
        number, message = stream.number, stream.unsent
        size = max(0, min(len(message), stream.window, self._window))
        if size:
            self._write(frames.data(number, message[:size]))
            stream.window -= size
            self._window -= size
            stream.unsent, stream.waits_since = message[size:], self._all.now
        if size == len(message):
            self._write(frames.trailers(number))
            del self._blocked[number]
            self._drop(number)
            self._close_if_done()

    def _write(self, data: bytes) -> None:
        """All answers of one turn of the loop are sent in one write."""
        self._out.append(data)
        self._out_bytes += len(data)
        if self._out_bytes > LARGEST_WRITE:
            self._flush()  # so that a client that reads nothing is noticed before its next frame
        elif not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        out, self._out, self._out_bytes = self._out, [], 0
        if out and not self._transport.is_closing():
            self._transport.write(b"".join(out))


_CONTROL: Final[dict[int, Callable[[Http2Connection, int, int, bytes], None]]] = {
    frames.PRIORITY: Http2Connection._on_priority,
    frames.RST_STREAM: Http2Connection._on_rst_stream,
    frames.SETTINGS: Http2Connection._on_settings,
    frames.PING: Http2Connection._on_ping,
    frames.GOAWAY: Http2Connection._on_goaway,
    frames.WINDOW_UPDATE: Http2Connection._on_window_update,
}


def _refuse_more(stream: Stream) -> None:
    if stream.is_asked:
        raise Http2Error(ErrorCode.STREAM_CLOSED, "a stream goes on after its end")


def _grown(window: int, increment: int) -> int:
    if increment == 0:
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a window must grow by 1 or more")
    if window + increment > frames.LARGEST_WINDOW:
        raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "a window is at most 2,147,483,647 bytes")
    return window + increment
