"""What a connection may cost before its caller is known. For uvicorn: `http=BoundedProtocol`.

A connection that its client keeps waiting is closed: one that is idle, whose request does not arrive, or whose response
is not read. At the most connections, the one that has waited longest makes room for a new one. At the most bytes of
unfinished requests, the one that has been unfinished longest makes room.
"""

from __future__ import annotations

import asyncio
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from headroom_edge.asgi import Receive, Scope, Send, encoded
from headroom_edge.gateway.connections import FIELD_BYTES, REQUEST_BYTES, Unfinished, connections_of
from headroom_edge.gateway.server import KNOWN, SMALL_BODY, refuse
from headroom_edge.problems import Problem, bad_request, busy
from headroom_edge.request_guard import refusal

HEAD_BYTES: Final = 16_384  # of the request line and all fields
HEAD_FIELDS: Final = 100
PIPELINED_REQUESTS: Final = 16
# Requests that arrive together cannot be told apart before they are parsed, so the last one's head may seem this long.
PIPELINED_BYTES: Final = 65_536
FRAMING: Final = 8  # bytes on the wire per byte of a body, for a client that sends every byte as a chunk


class BoundedProtocol(HttpToolsProtocol):
    """Most requests arrive in one piece. For those it does next to nothing, because every check pays for it.

    Some methods replace those of uvicorn, for speed: this server upgrades nothing, and has its own time-outs.
    """

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
        "_served",
    )

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._all = connections_of(server_state, self.loop)
        self._is_refused = False
        self._has_begun = False  # some of a request has arrived, and not all of it
        self._in_head = False
        self._is_behind = False  # the request began in a chunk behind another one
        self._chunk = 0  # bytes of what is being parsed now
        self._received = 0  # bytes of the request, from the start of the chunk in which it began
        self._body = 0  # bytes of its body
        self._held_in: Unfinished | None = None  # where it counts
        self._served: RequestResponseCycle | None = None  # the request in front of those in the pipeline

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn
        super().connection_made(transport)
        if not self._all.make_room(len(self.connections)):
            self._refuse(busy("This server has as many connections as it can serve; try again in a second."))
            self.transport.close()
        else:
            self._all.waiting[self] = self._all.now

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.waiting.pop(self, None)
        self._all.lingering.pop(self, None)
        self._release()
        super().connection_lost(exc)
        if self._served is not None and not self._served.response_complete:
            self._served.disconnected = True  # uvicorn tells only the latest request that its client has gone
            self._served.message_event.set()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._chunk = size = len(data)
        if was_begun := self._has_begun:
            self._received += size
        else:
            self._received = 0
        try:
            self.parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as stop:
            self._stopped(data, stop)
        if not self._has_begun or self._is_refused:
            return
        if not was_begun or self._received == size:  # the request began in this chunk
            self._wait()
        if self._in_head and self._received > (PIPELINED_BYTES if self._is_behind else HEAD_BYTES):
            self._refuse(_head_too_large())
        elif self._received - FRAMING * self._body > HEAD_BYTES + PIPELINED_BYTES:
            self.transport.abort()  # fields behind the body, or chunks that say more than they carry
        elif not self.transport.is_closing():
            self._hold()

    def _stopped(self, data: bytes, stop: Exception) -> None:
        """The parser has not read all of `data`."""
        if not isinstance(stop, HttpParserUpgrade):
            if self._has_begun and self._is_answered():
                self.transport.abort()
            else:
                self._refuse(_malformed())
        elif self._in_head and not self._is_refused:
            # It reads no body of a request for another protocol, and nothing behind it.
            again = self._head_without_upgrade() + data[stop.args[0] :]
            try:
                self.parser.feed_data(again)
            except (HttpParserError, HttpParserUpgrade) as next_stop:
                self._stopped(again, next_stop)

    def _head_without_upgrade(self) -> bytes:
        """A server may ignore the wish for another protocol (RFC 9110, section 7.8). This one always does."""
        line = b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        fields = [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join([line, *fields, b"", b""])

    def _should_upgrade(self) -> bool:
        return False

    def on_message_begin(self) -> None:
        HttpToolsProtocol.on_message_begin(self)
        self._is_behind = self._received > 0
        self._received = self._chunk
        self._body = 0
        self._has_begun = self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        # Behind a body in chunks come trailers, which must not pass for fields of the head (RFC 9110, section 6.5.1).
        if self._in_head:
            HttpToolsProtocol.on_header(self, name, value)

    def on_headers_complete(self) -> None:
        if self._is_refused:
            return
        is_upgrade = self.parser.should_upgrade()
        if is_upgrade and self.parser.get_method() != b"CONNECT":
            return  # it is parsed again, without that field
        self._in_head = False
        if len(self.headers) > HEAD_FIELDS or (self._received > HEAD_BYTES and self._head_size() > HEAD_BYTES):
            self._refuse(_head_too_large())
        elif len(self.pipeline) >= PIPELINED_REQUESTS:
            self._is_refused = True
            self.transport.abort()
        else:
            self.open_request(self._fault_of_head(is_tunnel=is_upgrade))
            if not self.pipeline:
                self._served = self.cycle

    def _fault_of_head(self, *, is_tunnel: bool) -> Problem | None:
        hosts = [name for name, _ in self.headers].count(b"host")
        if hosts != 1 and (hosts or self.parser.get_http_version() == "1.1"):
            return _bad_head(f"The request has {hosts or 'no'} Host fields; send one.")
        return _bad_head("This server opens no tunnels; use another method than CONNECT.") if is_tunnel else None

    def open_request(self, fault: Problem | None) -> None:
        """Answer the request whose head has arrived, after those in front of it. One with a fault is the last one."""
        if fault is not None:
            self.app = partial(_refused, fault)
        HttpToolsProtocol.on_headers_complete(self)

    def on_body(self, body: bytes) -> None:
        cycle = self.cycle
        if self._is_refused:
            return
        self._body += len(body)
        if cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > SMALL_BODY:
            # The rest stays in the kernel until the application asks for it.
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        self._has_begun = False
        if self._in_head or self._is_refused:
            return
        if self._held_in is not None:
            self._release()
        cycle = self.cycle
        if cycle.response_complete:  # before the request ended: nothing else will start its wait for the next one
            self._wait()
        else:
            self._all.waiting.pop(self, None)
            cycle.more_body = False
            cycle.message_event.set()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self._held_in is not None:
            self._hold()
        cycle = self.cycle
        if cycle.response_complete and cycle.body:
            cycle.body = bytearray()  # the application did not want it
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self._served, application = self.pipeline.pop()
                self._start_asgi_task(self._served, application)
        # The latest request is answered, not only one in front of it. One that has not arrived whole waits already.
        if cycle.response_complete and not self._has_begun and self in self.connections:
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
        if self.waits_for_server():
            self._wait()
            return
        self._all.waiting.pop(self, None)
        self._release()
        if self.transport.is_closing() or (self._is_answered() and (self._has_begun or self.flow.write_paused)):
            self.transport.abort()
            return
        if self._has_begun:
            self._refuse(_too_slow())
        elif self.transport.get_write_buffer_size():
            self._all.linger(self)  # closing waits for a client that may never read the rest
        self.transport.close()

    def waits_for_server(self) -> bool:
        """Whether the application has not asked for the rest of the body yet."""
        return self._has_begun and self.flow.read_paused

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
        if self._is_refused:
            return
        self._is_refused = True
        self._all.waiting.pop(self, None)
        self._release()
        if self.transport.is_closing():
            return
        has_begun = [self._forsake(cycle) for cycle in (self._served, self.cycle)]
        if any(has_begun):
            self.transport.abort()
            return
        self.flow.resume_reading()
        self.transport.write(_response(problem))
        self.transport.write_eof()
        self._all.linger(self)

    @staticmethod
    def _forsake(cycle: RequestResponseCycle | None) -> bool:
        """An application that waits for the body is told that its client has gone. True if it has begun to respond."""
        if cycle is None or cycle.response_complete:
            return False
        cycle.disconnected = True
        cycle.body = bytearray()
        cycle.message_event.set()
        return cycle.response_started


def _response(problem: Problem) -> bytes:
    body = problem.body()
    fields = {**refusal(problem).headers, "Content-Length": str(len(body)), "Connection": "close"}
    lines = [STATUS_LINE[int(problem.status)], *(b"%s: %s\r\n" % field for field in encoded(fields)), b"\r\n", body]
    return b"".join(lines)


async def _refused(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    await refuse(send, problem)


def _bad_head(detail: str) -> Problem:
    return Problem(HTTPStatus.BAD_REQUEST, "bad-request", detail, headers={"Connection": "close"})


def _head_too_large() -> Problem:
    detail = f"The request has more than {HEAD_BYTES:,} bytes or {HEAD_FIELDS} fields before its body; send fewer."
    return Problem(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head-too-large", detail)


def _malformed() -> Problem:
    return bad_request("bad-request", "The request is not valid HTTP; check its first line and its fields.")


def _too_slow() -> Problem:
    return Problem(HTTPStatus.REQUEST_TIMEOUT, "too-slow", "The request did not arrive within 10 s; send it faster.")
