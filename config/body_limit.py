"""Limits request bodies. Django reads a whole body before it authenticates, so larger ones wait for that here.

No route needs more than the API's own limit: a policy document has 1 MiB, a CSV file 2 MB.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from asgiref.sync import sync_to_async
from django.db import connection

from access.authentication import is_known
from api.inputs import MOST_BYTES
from headroom_edge.asgi import App, Message, Receive, Scope, Send, header_of
from headroom_edge.gateway.server import KNOWN, SMALL_BODY, refuse
from headroom_edge.problems import Problem

FRAME_BYTES: Final = 65_536  # of a form around a file


def bounded(
    inner: Callable[..., Awaitable[None]],
    is_known: Callable[[Scope], Awaitable[bool]],
    most: int = MOST_BYTES + FRAME_BYTES,
    small: int = SMALL_BODY,
) -> App:
    """`is_known`: whether the request has a valid session or token. It is asked if the body is not small."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return
        length = header_of(scope, "content-length")
        if length.isascii() and length.isdigit() and int(length[:20]) > most:
            await refuse(send, _too_large(most))
            return
        body = _BoundedBody(receive, lambda: is_known(scope), most, small)
        await inner(scope, body.receive, send)
        if body.is_over:
            await refuse(send, _too_large(most))

    return application


class _BoundedBody:
    """Counts a body without Content-Length. Over the limit, the application is told that the client disconnected.

    To the application, the body of a caller who is not known ends where it stops to be small. It is refused anyway.
    """

    def __init__(self, receive: Receive, is_known: Callable[[], Awaitable[bool]], most: int, small: int) -> None:
        self._receive, self._is_known, self._left, self._small = receive, is_known, most, most - small
        self._is_cut = False

    @property
    def is_over(self) -> bool:
        return self._left < 0

    async def receive(self) -> Message:
        if self._is_cut:
            return await _client_gone(self._receive)
        message = await self._receive()
        was_small = self._left >= self._small
        self._left -= len(message.get("body", b""))
        if self.is_over:
            return {"type": "http.disconnect"}
        if was_small and self._left < self._small and not await self._is_known():
            self._is_cut = True
            return {**message, "body": b"", "more_body": False}
        return message


async def _client_gone(receive: Receive) -> Message:
    """Wait until the client has gone, and drop what it sends until then."""
    while (message := await receive())["type"] != "http.disconnect":
        pass
    return message


async def is_known_apart(scope: Scope) -> bool:
    found = await sync_to_async(_is_known, thread_sensitive=False)(scope)
    if found:
        scope[KNOWN] = True
    return found


def _is_known(scope: Scope) -> bool:
    """Runs in a thread of a pool, so the thread must close its connection."""
    try:
        return is_known(scope)
    finally:
        connection.close()


def _too_large(most: int) -> Problem:
    detail = f"The body has more than {most:,} bytes; send less at once."
    return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", detail, headers={"Connection": "close"})
