"""A client that sends HTTP/2 frames one by one, right or wrong, and reads what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Self

from hpack import Decoder, Encoder

from headroom_edge.gateway.http2 import frames
from headroom_edge.gateway.http2.calls import Handler
from headroom_edge.gateway.http2.connection import Http2Connection
from headroom_edge.gateway.http2.connections import Http2Connections

PATIENCE_SECONDS = 60.0
PATH = "/test.Echo/Say"
USUAL = {
    ":method": "POST",
    ":scheme": "http",
    ":path": PATH,
    ":authority": "test",
    "content-type": "application/grpc",
    "te": "trailers",
}


@dataclass(frozen=True)
class Frame:
    kind: int
    flags: int
    stream: int
    payload: bytes


@dataclass
class Heard:
    """What one stream has answered."""

    fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_ended: bool = False
    reset: int | None = None

    @property
    def message(self) -> bytes:
        return self.body[5:]


def grpc_message(text: bytes, flag: int = 0) -> bytes:
    return bytes((flag,)) + len(text).to_bytes(4, "big") + text


@dataclass
class RawClient:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    encoder: Encoder = field(default_factory=Encoder)
    decoder: Decoder = field(default_factory=Decoder)
    next_stream: int = 1

    @classmethod
    async def connect(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def start(self, *settings: tuple[int, int]) -> None:
        self.writer.write(frames.PREFACE + frames.settings(settings))

    def send(self, kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> None:
        self.writer.write(frames.frame(kind, flags, stream, payload))

    def head(self, *at: int, **changed: str) -> int:
        """`at`: the number of the stream, if it is not the next one."""
        number = next(iter(at), self.next_stream)
        self.next_stream = max(self.next_stream, number + 2)
        self.send(frames.HEADERS, frames.END_HEADERS, number, self.block(**changed))
        return number

    def block(self, **changed: str) -> bytes:
        fields = USUAL | {name.replace("_", "-"): value for name, value in changed.items()}
        return self.encoder.encode(list(fields.items()), huffman=False)

    def call(self, text: bytes = b"hello", **changed: str) -> int:
        number = self.head(**changed)
        self.send(frames.DATA, frames.END_STREAM, number, grpc_message(text))
        return number

    async def frame(self) -> Frame | None:
        """None at the end of the connection."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                head = await self.reader.readexactly(9)
                payload = await self.reader.readexactly(int.from_bytes(head[:3], "big"))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return Frame(head[3], head[4], int.from_bytes(head[5:], "big"), payload)

    async def answers(self, streams: Iterable[int]) -> dict[int, Heard]:
        """Reads until all of these streams have ended or were reset, or the connection has ended."""
        wanted = set(streams)
        heard = {number: Heard() for number in wanted}
        while any(not one.is_ended and one.reset is None for one in heard.values()):
            found = await self.frame()
            if found is None:
                break
            if found.stream in wanted:
                self._take(heard[found.stream], found)
        return heard

    def _take(self, heard: Heard, found: Frame) -> None:
        if found.kind == frames.HEADERS:
            pairs = self.decoder.decode(found.payload)
            heard.fields |= {str(name): str(value) for name, value in pairs}
        elif found.kind == frames.DATA:
            heard.body += found.payload
        elif found.kind == frames.RST_STREAM:
            heard.reset = int.from_bytes(found.payload, "big")
        if found.kind in (frames.HEADERS, frames.DATA):
            heard.is_ended |= bool(found.flags & frames.END_STREAM)

    async def said_goodbye(self) -> int | None:
        """The code of the GOAWAY that ended the connection; None if it ended without one."""
        code = None
        while (found := await self.frame()) is not None:
            if found.kind == frames.GOAWAY:
                code = int.from_bytes(found.payload[4:8], "big")
        return code

    def close(self) -> None:
        self.writer.close()


@dataclass
class ServedHttp2:
    port: int
    connections: Http2Connections

    @asynccontextmanager
    async def client(self, *settings: tuple[int, int]) -> AsyncIterator[RawClient]:
        client = await RawClient.connect(self.port)
        client.start(*settings)
        try:
            yield client
        finally:
            client.close()


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[ServedHttp2]:
    loop = asyncio.get_running_loop()
    connections = Http2Connections(loop)
    server = await loop.create_server(lambda: Http2Connection(handler, connections), "127.0.0.1", 0)
    try:
        yield ServedHttp2(server.sockets[0].getsockname()[1], connections)
    finally:
        server.close()
        await connections.leave(0)
