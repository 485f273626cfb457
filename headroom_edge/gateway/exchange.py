"""One request to the check server and its response, as bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from headroom_edge.asgi import Scope
from headroom_edge.gateway.server import JSON
from headroom_edge.problems import Problem
from headroom_edge.request_guard import Request

Fields = list[tuple[bytes, bytes]]

CONNECTION: Final = "Connection"
CLOSE: Final = b"connection: close\r\n"
_DECISION: Final = b"%s%%s%s: %s\r\ncontent-length: %%d\r\n%%s\r\n%%s" % (STATUS_LINE[HTTPStatus.OK], *JSON)
_CONTROL: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f]")


class _NoEvent:
    def set(self) -> None:
        """Nobody waits for it: the protocol looks at the request after every chunk."""


class Exchange:
    """Stands where uvicorn has its RequestResponseCycle, so what its protocol uses has uvicorn's names."""

    message_event = _NoEvent()
    disconnected = False
    more_body = True
    response_complete = False
    fault: Problem | None = None  # of its head: the connection ends with this response
    waits_to_continue = False  # its client, before it sends the body
    is_asking = False  # the store has not answered yet
    is_known = False  # its caller, although the body has not arrived
    head = b""  # to be remembered if the caller is known
    unsent = b""  # its response, while the client does not read

    def __init__(self, scope: Scope, *, keep_alive: bool) -> None:
        self.scope = scope
        self.keep_alive = keep_alive
        self.body = bytearray()

    def request(self) -> Request:
        peer = self.scope["client"]
        return Request(self.scope["method"], "", peer[0] if peer else "", _reader(self.scope["headers"]))

    @property
    def response_started(self) -> bool:
        return self.response_complete  # it is written in one piece

    def decided(self, body: bytes, common: Fields) -> bytes:
        """The response to a check. `common` are the fields that every response has: the date."""
        return _DECISION % (_lines(tuple(common)), len(body), b"" if self.keep_alive else CLOSE, body)

    def rendered(self, status: int, headers: Mapping[str, str], body: bytes, common: Fields) -> bytes:
        """Any other response. Raises ValueError for a field that cannot be sent."""
        values = "".join(headers.values())
        if not values.isprintable() and _CONTROL.search(values):
            raise ValueError("a field of the response has a control character")
        fields = "".join([f"{name.lower()}: {value}\r\n" for name, value in headers.items()]).encode("latin-1")
        close = b"" if self.keep_alive else CLOSE
        if CONNECTION in headers:
            self.keep_alive, close = False, b""
        shown = b"" if self.scope["method"] == "HEAD" else body
        start = STATUS_LINE[status] + _lines(tuple(common))
        return b"%s%scontent-length: %d\r\n%s\r\n%s" % (start, fields, len(body), close, shown)


def _reader(fields: Fields) -> Callable[[str], str]:
    """As `header_of`, for many look-ups."""
    found = dict(fields)
    if len(found) < len(fields):
        found = {name: b",".join([value for other, value in fields if other == name]) for name in found}

    def header(name: str) -> str:
        return found.get(name.encode(), b"").decode("latin-1")

    return header


@lru_cache(maxsize=4)
def _lines(fields: tuple[tuple[bytes, bytes], ...]) -> bytes:
    return b"".join([b"%s: %s\r\n" % field for field in fields])
