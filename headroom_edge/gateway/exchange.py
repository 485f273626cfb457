"""One request to the check server and its response, as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from uvicorn.protocols.http.httptools_impl import HEADER_VALUE_RE, STATUS_LINE

from headroom_edge.asgi import Scope, encoded
from headroom_edge.gateway.server import JSON
from headroom_edge.problems import Problem
from headroom_edge.request_guard import refusal

Fields = list[tuple[bytes, bytes]]

CLOSE: Final = (b"connection", b"close")
_FAULT: Final = b"Internal Server Error"
_DECISION: Final = b"%s%%s%s: %s\r\ncontent-length: %%d\r\n%%s\r\n%%s" % (STATUS_LINE[HTTPStatus.OK], *JSON)


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    fields: Fields
    body: bytes

    @classmethod
    def of(cls, status: int, headers: Mapping[str, str], body: bytes) -> Response:
        return cls(status, [*encoded(headers), (b"content-length", b"%d" % len(body))], body)

    @classmethod
    def refusing(cls, problem: Problem) -> Response:
        verdict = refusal(problem)
        return cls.of(problem.status, verdict.headers, verdict.body)


# What an exception becomes; the same as uvicorn's.
FAULT: Final = Response(
    HTTPStatus.INTERNAL_SERVER_ERROR,
    [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(_FAULT)), CLOSE],
    _FAULT,
)


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

    @property
    def response_started(self) -> bool:
        return self.response_complete  # it is written in one piece

    def decided(self, body: bytes, common: Fields) -> bytes:
        """The response to a check. `common` are the fields that every response has: the date."""
        return _DECISION % (_lines(tuple(common)), len(body), b"" if self.keep_alive else _lines((CLOSE,)), body)

    def rendered(self, response: Response, common: Fields) -> bytes:
        """Raises ValueError for a field that would end early."""
        fields = response.fields
        if HEADER_VALUE_RE.search(b"".join([value for _, value in fields])):
            raise ValueError("a field of the response has a control character")
        if CLOSE in fields:
            self.keep_alive = False
        elif not self.keep_alive:
            fields = [*fields, CLOSE]
        body = b"" if self.scope["method"] == "HEAD" else response.body
        lines = [b"%s: %s\r\n" % field for field in fields]
        return b"".join([STATUS_LINE[int(response.status)], _lines(tuple(common)), *lines, b"\r\n", body])


@lru_cache(maxsize=4)
def _lines(fields: tuple[tuple[bytes, bytes], ...]) -> bytes:
    return b"".join([b"%s: %s\r\n" % field for field in fields])
