"""Limits the size of request bodies. Django reads a whole body, to disk if necessary, before it authenticates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from headroom_edge.asgi import App, Message, Receive, Scope, Send, header_of
from headroom_edge.gateway.server import refuse
from headroom_edge.problems import Problem

MOST_BYTES: Final = 16 * 1_048_576  # several times the size of any valid form, file or document


def bounded(inner: Callable[..., Awaitable[None]], most: int = MOST_BYTES) -> App:
    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return
        length = header_of(scope, "content-length")
        if length.isascii() and length.isdigit() and int(length[:20]) > most:
            await refuse(send, _too_large(most))
            return
        body = _CountedBody(receive, most)
        await inner(scope, body.receive, send)
        if body.is_over:
            await refuse(send, _too_large(most))

    return application


class _CountedBody:
    """Counts a body without Content-Length. Over the limit, the application is told that the client disconnected."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._left = receive, most

    @property
    def is_over(self) -> bool:
        return self._left < 0

    async def receive(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        return {"type": "http.disconnect"} if self.is_over else message


def _too_large(most: int) -> Problem:
    detail = f"The body has more than {most:,} bytes; send less at once."
    return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", detail, headers={"Connection": "close"})
