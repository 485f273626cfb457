"""The HTTP/2 connections of one process: how many there may be, and how long one may keep the server waiting."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headroom_edge.gateway.http2.connection import Http2Connection

MOST_CONNECTIONS: Final = 256
PATIENCE_SECONDS: Final = 9.0  # for a frame, a message or an answer that only part of has passed
SWEEP_SECONDS: Final = 0.5
UNFINISHED: Final = 16_777_216  # bytes that open streams of all connections take


class Http2Connections:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.now = loop.time()  # at the last sweep, which is exact enough and costs nothing
        self.held = 0  # bytes that open streams take
        self._open: dict[Http2Connection, None] = {}
        self._left: asyncio.Event | None = None  # set when all have gone
        self._timer = loop.call_later(SWEEP_SECONDS, self._sweep)

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: Http2Connection) -> bool:
        """Whether it may stay. At the most connections, the oldest idle one makes room."""
        if len(self._open) >= MOST_CONNECTIONS:
            idle = next((one for one in self._open if one.is_idle), None)
            if idle is None:
                return False
            idle.give_up("this server has as many connections as it can serve")
        self._open[connection] = None
        return True

    def drop(self, connection: Http2Connection) -> None:
        if connection in self._open:
            del self._open[connection]
            self.held -= connection.held
            if self._left is not None and not self._open:
                self._left.set()

    def make_room(self) -> None:
        """End the connection that holds the most."""
        max(self._open, key=lambda one: one.held).give_up("its open streams take too many bytes")

    async def leave(self, patience_s: float) -> None:
        """Answer what is under way, for as long as that, and close every connection."""
        self._left = asyncio.Event()
        for connection in list(self._open):
            connection.leave()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                if self._open:
                    await self._left.wait()
        self._timer.cancel()

    def _sweep(self) -> None:
        self.now = self.loop.time()
        late = self.now - PATIENCE_SECONDS
        for connection in [one for one in self._open if one.has_waited_since(late)]:
            connection.give_up("a frame, a message or an answer was left unfinished for 10 s")
        self._timer = self.loop.call_later(SWEEP_SECONDS, self._sweep)
