"""HTTP/2 frames: their numbers, and how the ones that this server sends are written."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final
from urllib.parse import quote

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_BYTES: Final = 9
LARGEST_FRAME: Final = 16_384  # the least that HTTP/2 allows a receiver to ask for; this server asks for no more
LARGEST_WINDOW: Final = 2**31 - 1
FIRST_WINDOW: Final = 65_535  # of a connection, and of a stream unless SETTINGS say otherwise

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

ACK: Final = 0x1
END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITISED: Final = 0x20

MAX_CONCURRENT_STREAMS: Final = 3
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5
MAX_HEADER_LIST_SIZE: Final = 6


class ErrorCode(IntEnum):
    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class Http2Error(Exception):
    """The connection cannot go on. The peer is told the code."""

    def __init__(self, code: ErrorCode, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return b"%s%c%c%s%s" % (len(payload).to_bytes(3, "big"), kind, flags, stream.to_bytes(4, "big"), payload)


def settings(pairs: Iterable[tuple[int, int]]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in pairs))


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, increment.to_bytes(4, "big"))


def rst_stream(stream: int, code: ErrorCode) -> bytes:
    return frame(RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def goaway(last_stream: int, code: ErrorCode, sentence: str = "") -> bytes:
    return frame(GOAWAY, 0, 0, last_stream.to_bytes(4, "big") + code.to_bytes(4, "big") + sentence.encode())


def data(stream: int, payload: bytes) -> bytes:
    """One message as DATA frames, none of them larger than every receiver takes."""
    if len(payload) <= LARGEST_FRAME:
        return frame(DATA, 0, stream, payload)
    pieces = range(0, len(payload), LARGEST_FRAME)
    return b"".join(frame(DATA, 0, stream, payload[start : start + LARGEST_FRAME]) for start in pieces)


def unpadded(flags: int, payload: bytes) -> bytes:
    """The payload of DATA or HEADERS without its padding and its priority."""
    if flags & PADDED:
        if not payload or payload[0] >= len(payload):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "the padding is longer than its frame")
        payload = payload[1 : len(payload) - payload[0]]
    return payload


def literal(name: str, value: str) -> bytes:
    """A header field that neither side has to remember, so that this server needs no state to compress."""
    return b"\x00" + _text(name.encode()) + _text(value.encode("latin-1", "replace"))


def _text(text: bytes) -> bytes:
    return _length(len(text)) + text


def _length(size: int) -> bytes:
    if size < 127:
        return bytes((size,))
    rest, encoded = size - 127, bytearray(b"\x7f")
    while rest >= 128:
        encoded.append(rest % 128 + 128)
        rest //= 128
    encoded.append(rest)
    return bytes(encoded)


_OK: Final = b"\x88" + literal("content-type", "application/grpc")  # 0x88 is `:status: 200` in the static table
_FINE: Final = literal("grpc-status", "0")
_OK_BLOCK: Final = len(_OK).to_bytes(3, "big") + bytes((HEADERS, END_HEADERS))
_FINE_BLOCK: Final = len(_FINE).to_bytes(3, "big") + bytes((HEADERS, END_HEADERS | END_STREAM))


def response_head(stream: int) -> bytes:
    return b"%s%s%s" % (_OK_BLOCK, stream.to_bytes(4, "big"), _OK)


def trailers(stream: int) -> bytes:
    return b"%s%s%s" % (_FINE_BLOCK, stream.to_bytes(4, "big"), _FINE)


def refusal(stream: int, status: int, sentence: str) -> bytes:
    """A whole answer without a message. gRPC wants its sentence percent-encoded."""
    said = quote(sentence, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~")
    block = _OK + literal("grpc-status", str(status)) + literal("grpc-message", said)
    return frame(HEADERS, END_HEADERS | END_STREAM, stream, block)
