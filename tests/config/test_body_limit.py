"""Nobody can make the server keep a body without end; Django is asked as the server does it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from django.core.asgi import get_asgi_application

from config.body_limit import bounded

MOST = 1_000


def asked(chunks: Sequence[bytes], headers: Sequence[tuple[bytes, bytes]] = ()) -> tuple[int, int]:
    """The status, and how many of the chunks were taken."""
    waiting, sent = list(chunks), list[Any]()

    async def receive() -> dict[str, Any]:
        if not waiting:
            return await asyncio.Event().wait()  # type: ignore[return-value] # a client that stays
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/nothing",
        "query_string": b"",
        "headers": [(b"host", b"testserver"), *headers],
    }

    async def ask() -> None:
        await bounded(get_asgi_application(), MOST)(scope, receive, send)

    asyncio.run(ask())
    (start,) = (message for message in sent if message["type"] == "http.response.start")
    return start["status"], len(chunks) - len(waiting)


@pytest.mark.parametrize(
    ("chunks", "headers", "answer"),
    [
        ([b"x" * MOST], [], (404, 1)),
        ([b"x" * 400] * 50, [], (413, 3)),
        ([b"x"], [(b"content-length", b"1001")], (413, 0)),
        ([b"x"], [(b"content-length", b"9" * 5_000)], (413, 0)),
    ],
)
def test_a_body_is_taken_as_far_as_it_may_go(
    chunks: list[bytes], headers: list[tuple[bytes, bytes]], answer: tuple[int, int]
) -> None:
    assert asked(chunks, headers) == answer
