"""Unary calls of gRPC: one message in, one message or a refusal out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from headroom_edge.gateway.http2.header_blocks import Fields

LARGEST_MESSAGE: Final = 262_144
RESOURCE_EXHAUSTED: Final = 8
UNIMPLEMENTED: Final = 12
INTERNAL: Final = 13
PREFIX_BYTES: Final = 5  # in front of a message: a flag, and its length


@dataclass(frozen=True, slots=True)
class GrpcRefusal:
    status: int
    sentence: str


TOO_LARGE: Final = GrpcRefusal(RESOURCE_EXHAUSTED, "The message is over 262,144 bytes; send fewer descriptors.")


@dataclass(slots=True)
class Call:
    fields: Fields  # with `:path`, and the metadata
    message: bytes
    peer: str  # address of the connected peer; empty over a Unix socket


Reply: TypeAlias = bytes | GrpcRefusal
Answer: TypeAlias = Callable[[Reply], None]
Handler: TypeAlias = Callable[[Call, Answer], None]


class Stream:
    __slots__ = ("body", "fields", "held", "is_asked", "number", "received", "unsent", "waits_since", "window")

    def __init__(self, number: int, fields: Fields, window: int, now: float) -> None:
        self.number = number
        self.fields = fields
        self.body: bytes | bytearray = b""
        self.is_asked = False  # its message is whole; no more may come
        self.received = 0  # bytes on the wire
        self.held = 0  # bytes that it takes
        self.window = window  # bytes that the client still takes
        self.unsent = b""  # of an answer that waits for a larger window
        self.waits_since: float | None = now  # for its client; None: for this server


def fault_of(fields: Fields, body: bytes | bytearray) -> GrpcRefusal | None:
    """Why this is no call with one whole message; None if it is one."""
    if fields.get(":method") != "POST" or not fields.get("content-type", "").startswith("application/grpc"):
        return GrpcRefusal(UNIMPLEMENTED, "This port serves gRPC only; send POST with content-type application/grpc.")
    if len(body) < PREFIX_BYTES or int.from_bytes(body[1:PREFIX_BYTES], "big") != len(body) - PREFIX_BYTES:
        return GrpcRefusal(INTERNAL, "A call must carry exactly one whole message.")
    if len(body) > LARGEST_MESSAGE + PREFIX_BYTES:
        return TOO_LARGE
    if body[0]:
        return GrpcRefusal(UNIMPLEMENTED, "The message is compressed; send it uncompressed.")
    return None
