"""What a connection may cost before its caller is known. For uvicorn: `http=BoundedProtocol`.

A connection that its client keeps waiting is closed: one that is idle, whose request does not arrive, or whose response
is not read. At the most connections, the one that has waited longest makes room for a new one. At the most bytes of
unfinished requests, the one that has been unfinished longest makes room.
"""

from __future__ import annotations

import asyncio
import resource
from http import HTTPStatus
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from headroom_edge.asgi import encoded
from headroom_edge.gateway.server import KNOWN, SMALL_BODY
from headroom_edge.problems import Problem, busy
from headroom_edge.request_guard import refusal

MOST_CONNECTIONS: Final = 1_000  # in one process
HEAD_BYTES: Final = 16_384  # of the request line and all fields
HEAD_FIELDS: Final = 100
# Of all requests that have arrived in part: those of strangers, and those of callers who are known.
UNFINISHED_BYTES: Final = {False: 4_194_304, True: 67_108_864}
# What one of them takes, as measured, besides what has arrived: its connection and its task, and each of its fields.
REQUEST_BYTES: Final = 8_192
FIELD_BYTES: Final = 160
# A request arrives within 10 s: it is given up after these seconds, plus at most one sweep.
PATIENCE_SECONDS: Final = 9.0
SWEEP_SECONDS: Final = 0.5
# A refused client is still read for this time. Else it would get a reset connection instead of the response.
LINGER_SECONDS: Final = 1.0
MOST_LINGERING: Final = 100  # of those clients
PIPELINED_REQUESTS: Final = 16
# Requests that arrive together cannot be told apart before they are parsed, so the last one's head may seem this long.
PIPELINED_BYTES: Final = 65_536
FRAMING: Final = 8  # bytes on the wire per byte of a body, for a client that sends every byte as a chunk
OTHER_FILES: Final = 200  # descriptors for all but connections


class Unfinished:
    """Requests of which a part has arrived: how many bytes of each, those that began first in front."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0
        self._sizes: dict[BoundedProtocol, int] = {}

    def put(self, connection: BoundedProtocol, size: int) -> None:
        """Beyond the bound others are turned away, or `connection` if all others wait for this server."""
        self._held += size - self._sizes.get(connection, 0)
        self._sizes[connection] = size
        while self._held > self._most:
            late = (one for one in self._sizes if not one.flow.read_paused)
            next(late, connection).turn_away()

    def drop(self, connection: BoundedProtocol) -> None:
        self._held -= self._sizes.pop(connection)


class Connections:
    """Those of one server: which wait for their client, which are refused and still read. Longest first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.waiting: dict[BoundedProtocol, float] = {}  # since when, by `now`
        self.lingering: dict[BoundedProtocol, float] = {}
        self.unfinished = {is_known: Unfinished(most) for is_known, most in UNFINISHED_BYTES.items()}
        self.now = 0.0  # the loop's clock at the last sweep, which is exact enough and costs nothing
        self._sweep()

    def make_room(self) -> bool:
        oldest = next(iter(self.waiting), None)
        if oldest is not None:
            oldest.give_up()
        return oldest is not None

    def linger(self, connection: BoundedProtocol) -> None:
        self.lingering[connection] = self.now
        if len(self.lingering) > MOST_LINGERING:
            next(iter(self.lingering)).end()

    def _sweep(self) -> None:
        self.now = self._loop.time()
        late = self.now - PATIENCE_SECONDS
        while (oldest := next(iter(self.waiting), None)) is not None and self.waiting[oldest] <= late:
            oldest.give_up()
        late = self.now - LINGER_SECONDS
        while (oldest := next(iter(self.lingering), None)) is not None and self.lingering[oldest] <= late:
            oldest.end()
        self._loop.call_later(SWEEP_SECONDS, self._sweep)


class BoundedProtocol(HttpToolsProtocol):
    """Most requests arrive in one piece. For those it does next to nothing, because every check pays for it."""

    __slots__ = (
        "_all",
        "_body",
        "_chunk",
        "_has_begun",
        "_held_in",
        "_in_head",
        "_is_behind",
        "_is_refused",
        "_received",
    )

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._all = _connections_of(server_state, self.loop)
        self._is_refused = False
        self._has_begun = False  # some of a request has arrived, and not all of it
        self._in_head = False
        self._is_behind = False  # the request began in a chunk behind another one
        self._chunk = 0  # bytes of what is being parsed now
        self._received = 0  # bytes of the request, from the start of the chunk in which it began
        self._body = 0  # bytes of its body
        self._held_in: Unfinished | None = None  # where it counts

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS and not self._all.make_room():
            self._refuse(busy("This server has as many connections as it can serve; try again in a second."))
            self.transport.close()
        else:
            self._all.waiting[self] = self._all.now

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.waiting.pop(self, None)
        self._all.lingering.pop(self, None)
        self._release()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._chunk = size = len(data)
        if was_begun := self._has_begun:
            self._received += size
        else:
            self._received = 0
        HttpToolsProtocol.data_received(self, data)
        if not self._has_begun:
            return
        if not was_begun or self._received == size:  # the request began in this chunk
            self._wait()
        if self._in_head and self._received > (PIPELINED_BYTES if self._is_behind else HEAD_BYTES):
            self._refuse(_head_too_large())
        elif self._received - FRAMING * self._body > HEAD_BYTES + PIPELINED_BYTES:
            self.transport.abort()  # fields behind the body, or chunks that say more than they carry
        elif not self._is_refused and not self.transport.is_closing():
            self._hold()

    def on_message_begin(self) -> None:
        HttpToolsProtocol.on_message_begin(self)
        self._is_behind = self._received > 0
        self._received = self._chunk
        self._body = 0
        self._has_begun = self._in_head = True

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._is_refused:
            return
        if len(self.headers) > HEAD_FIELDS or (self._received > HEAD_BYTES and self._head_size() > HEAD_BYTES):
            self._refuse(_head_too_large())
        elif len(self.pipeline) >= PIPELINED_REQUESTS:
            self._is_refused = True
            self.transport.abort()
        else:
            HttpToolsProtocol.on_headers_complete(self)

    def on_body(self, body: bytes) -> None:
        if self._is_refused:
            return
        self._body += len(body)
        HttpToolsProtocol.on_body(self, body)
        if len(self.cycle.body) > SMALL_BODY:
            # The rest stays in the kernel until the application asks for it.
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        self._has_begun = False
        if self._is_refused:
            return
        self._all.waiting.pop(self, None)
        if self._held_in is not None:
            self._release()
        HttpToolsProtocol.on_message_complete(self)

    def on_response_complete(self) -> None:
        HttpToolsProtocol.on_response_complete(self)
        if self.cycle.response_complete and self.cycle.body:
            self.cycle.body = bytearray()  # the application did not want it
        if self._held_in is not None:
            self._hold()
        # The latest request is answered, not only one in front of it. One that has not arrived whole waits already.
        if self.cycle.response_complete and not self._has_begun and self in self.connections:
            self._all.waiting[self] = self._all.now

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self._has_begun and not (self.cycle is None or self.cycle.response_complete):
            self._all.waiting.pop(self, None)

    def _wait(self) -> None:
        """It waits for its client from now on."""
        self._all.waiting.pop(self, None)
        self._all.waiting[self] = self._all.now

    def give_up(self) -> None:
        """Close the connection: its client has kept the server waiting."""
        self._all.waiting.pop(self, None)
        self._release()
        if self.transport.is_closing() or (self._is_answered() and (self._has_begun or self.flow.write_paused)):
            self.transport.abort()
            return
        if self._has_begun:
            self._refuse(_too_slow())
        self.transport.close()

    def turn_away(self) -> None:
        """Its unfinished request makes room for others."""
        self._all.waiting.pop(self, None)
        self._release()
        if self._is_answered():
            self.transport.abort()
        else:
            self._refuse(busy("This server reads as many requests at once as it can; try again in a second."))

    def end(self) -> None:
        self._all.lingering.pop(self, None)
        self.transport.abort()

    def _hold(self) -> None:
        """Count what has arrived of the request."""
        where = self._all.unfinished[KNOWN in self.scope]
        if self._held_in is not where:
            self._release()
            self._held_in = where
        # What arrives after the response is dropped.
        kept = self._received if self._in_head or not self.cycle.response_complete else 0
        where.put(self, kept + REQUEST_BYTES + FIELD_BYTES * len(self.headers))

    def _release(self) -> None:
        if self._held_in is not None:
            self._held_in.drop(self)
            self._held_in = None

    def _is_answered(self) -> bool:
        return not self._in_head and self.cycle is not None and self.cycle.response_started

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _refuse(self, problem: Problem) -> None:
        """Respond without the application, and end the connection."""
        self._is_refused = True
        self._release()
        cycle = self.cycle
        if self.transport.is_closing():
            return
        if cycle is not None and not cycle.response_complete:
            # An application that waits for the body is told that its client has gone.
            cycle.disconnected = True
            cycle.body = bytearray()
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
                return
        self.flow.resume_reading()
        self.transport.write(_response(problem))
        self.transport.write_eof()
        self._all.linger(self)


def allow_connections() -> None:
    """Raise the process's limit of open files, if the system allows it, so that it can have the most connections."""
    wanted = MOST_CONNECTIONS + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _connections_of(state: ServerState, loop: asyncio.AbstractEventLoop) -> Connections:
    found: Connections = vars(state).setdefault("headroom_connections", None) or Connections(loop)
    vars(state)["headroom_connections"] = found
    return found


def _response(problem: Problem) -> bytes:
    body = problem.body()
    fields = {**refusal(problem).headers, "Content-Length": str(len(body)), "Connection": "close"}
    lines = [STATUS_LINE[int(problem.status)], *(b"%s: %s\r\n" % field for field in encoded(fields)), b"\r\n", body]
    return b"".join(lines)


def _head_too_large() -> Problem:
    detail = f"The request has more than {HEAD_BYTES:,} bytes or {HEAD_FIELDS} fields before its body; send fewer."
    return Problem(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head-too-large", detail)


def _too_slow() -> Problem:
    return Problem(HTTPStatus.REQUEST_TIMEOUT, "too-slow", "The request did not arrive within 10 s; send it faster.")
