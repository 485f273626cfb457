"""Notices callers that leave before their answer, so that the work for them ends (quotas.caller)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from headroom_edge.asgi import App, Message, Receive, Scope, Send
from quotas.caller import Caller, current


def watched(inner: Callable[..., Awaitable[None]]) -> App:
    """Django listens for the end of the connection while a view runs; what it hears is told to the request's caller."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return
        caller = Caller()

        async def heard() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                await asyncio.get_running_loop().run_in_executor(None, caller.leave)
            return message

        token = current.set(caller)
        try:
            await inner(scope, heard, send)
        finally:
            current.reset(token)

    return application
