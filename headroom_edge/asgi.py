"""Middleware for ASGI (Starlette, FastAPI, …): `app.add_middleware(QuotaMiddleware, store="redis://…")`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import partial
from typing import Any

from headroom_edge import AsyncLimiter
from headroom_edge.plan.paths import AS_STARLETTE, PathReading
from headroom_edge.request_guard import Guard, GuardRules, Request, RequestVerdict
from headroom_edge.response_timer import ResponseTimer
from headroom_edge.settings import READY_MS

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

TRY_AGAIN_LATER = 1013  # close code of a WebSocket


class QuotaMiddleware:
    """Add it last, so that it runs first and a denied request reaches no other middleware."""

    def __init__(
        self,
        app: App,
        store: str = "redis://localhost:6379/0",
        *,
        rules: GuardRules | None = None,
        limiter: AsyncLimiter | None = None,
    ) -> None:
        self.app = app
        self.limiter = limiter or AsyncLimiter.from_url(store)
        self.guard = Guard(rules)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.limiter.converse(self.guard.warm, budget_ms=READY_MS)
            await self.app(scope, receive, send)
            return
        request = request_of(scope, scope["path"], AS_STARLETTE)
        verdict = await self.limiter.converse(lambda core: self.guard.judge(core, request))
        if verdict.problem is not None:
            await refuse(scope, send, verdict)
            return
        timer = None
        try:
            if verdict.wait_s:
                await asyncio.sleep(verdict.wait_s)
            with ResponseTimer(self.limiter, verdict) as timer:
                await self.app(scope, receive, with_fields(send, verdict.headers, timer))
        finally:
            if verdict.decision is not None and verdict.holds:
                await self.limiter.release(verdict.decision, result=timer.result if timer else "ignore")


def header_of(scope: Scope, name: str) -> str:
    wanted = name.encode()
    values = [value for field, value in scope["headers"] if field == wanted]
    return b",".join(values).decode("latin-1") if values else ""


def request_of(scope: Scope, path: str = "", reading: PathReading | None = None, method: str = "") -> Request:
    peer = scope.get("client")
    method = method or scope.get("method", "GET")
    return Request(method, path, peer[0] if peer else "", partial(header_of, scope), reading, scope)


def encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]


def with_fields(send: Send, headers: Mapping[str, str], timer: ResponseTimer) -> Send:
    async def send_with_fields(message: Message) -> None:
        if message["type"] == "http.response.start":
            timer.stop(message["status"])
            message = {**message, "headers": [*message.get("headers", ()), *encoded(headers)]}
        await send(message)

    return send_with_fields


async def refuse(scope: Scope, send: Send, verdict: RequestVerdict) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": TRY_AGAIN_LATER})
    elif verdict.problem is not None:
        await respond(send, verdict.problem.status, verdict.headers, verdict.body)


async def respond(send: Send, status: int, headers: Mapping[str, str], body: bytes) -> None:
    fields = [*encoded(headers), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": int(status), "headers": fields})
    await send({"type": "http.response.body", "body": body})
