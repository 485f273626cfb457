"""Bounds what the pages of one caller take from the others. An ASGI application around Django.

A few pages of one caller are served at the same time. The next ones wait here, without a thread and without a database
connection. What a tenant asks of the API counts as a page: its reports cost as much. Other callers of the API, such as
editors, wait where they write (quotas.changes.turn). As long as it is not known whose a token is, one of its calls goes
ahead, and the others wait until that one is authenticated.

After a 429, the caller is refused from memory, after a pause, until it may try again: a refusal by Django costs as much
as a small page, and a client that repeats at once would keep the process busy with refusals.

All of it holds within one process. The limits that hold for all processes are those of quotas.own_limits.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from math import ceil
from typing import Final

from django.http import parse_cookie

from headroom_edge.asgi import Message, Receive, Scope, Send, header_of, respond
from headroom_edge.gateway.server import SMALL_BODY, refuse
from headroom_edge.problems import Problem
from headroom_edge.recent_cache import RecentCache
from headroom_edge.request_guard import bearer_text

AT_ONCE: Final = 4
# A page keeps this process and PostgreSQL busy. With two of them, a tenant leaves one of two cores to the others.
TENANT_AT_ONCE: Final = 2
STREAMS: Final = 32  # open pages that keep themselves up to date
WAITING: Final = 64  # of one caller; further ones are refused at once
PATIENCE_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 1.0  # before a refusal from memory
REMEMBERED_SECONDS: Final = 5.0  # at most, so that a raised limit is soon noticed
CALLERS: Final = 10_000
REFUSALS: Final = 500
LONGEST_REFUSAL: Final = 65_536
STREAM: Final = "/live"
API: Final = "/v1/"
FREE: Final = ("/static/", "/healthz", "/metrics", "/login", "/logout", "/favicon.ico")
TELL: Final = "headroom.tell"  # in the scope: the gate calls it with the tenant or the account, from any thread
OF_TENANT: Final = "tenant "


@dataclass
class Refusal:
    until: float  # by the loop's clock
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""


@dataclass
class Slots:
    free: asyncio.Semaphore
    users: int = 0  # served and waiting


class PageQueue:
    """`address_of`: who is counted together while it is not known who they are."""

    def __init__(
        self, inner: Callable[..., Awaitable[None]], session_cookie: str, address_of: Callable[[Scope], str]
    ) -> None:
        self._inner, self._session_cookie, self._address_of = inner, session_cookie, address_of
        self._callers: RecentCache[int, str] = RecentCache(CALLERS)  # by credential
        self._ahead: dict[int, asyncio.Event] = {}  # by credential: the call that tells whose it is
        self._refusals: RecentCache[int, Refusal] = RecentCache(REFUSALS)
        self._slots: dict[str, Slots] = {}
        self._streams: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        credential = self._credential(scope)
        if credential is None:
            await self._inner(scope, receive, send)
            return
        loop = asyncio.get_running_loop()
        scope[TELL] = lambda caller: loop.call_soon_threadsafe(self._learn, credential, caller)
        if scope["path"] == STREAM:
            await self._stream(self._caller(credential, scope), scope, receive, send)
            return
        receive = await _arrived(receive)
        if _is_api(scope):
            await self._api_call(credential, scope, receive, send)
        else:
            await self._page(credential, scope, receive, send)

    async def _api_call(self, credential: int, scope: Scope, receive: Receive, send: Send) -> None:
        ahead = self._ahead.get(credential)
        if ahead is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(ahead.wait(), PATIENCE_SECONDS)
        caller = self._callers.get(credential)
        if caller is None and credential not in self._ahead:
            ahead = self._ahead[credential] = asyncio.Event()
            try:
                await self._inner(scope, receive, send)
            finally:
                self._pass(credential, ahead)
        elif caller is not None and caller.startswith(OF_TENANT):
            await self._page(credential, scope, receive, send)
        else:
            await self._inner(scope, receive, send)

    def _learn(self, credential: int, caller: str) -> None:
        self._callers.put(credential, caller)
        if (ahead := self._ahead.get(credential)) is not None:
            self._pass(credential, ahead)

    def _pass(self, credential: int, ahead: asyncio.Event) -> None:
        """Whoever waits behind it goes on."""
        ahead.set()
        if self._ahead.get(credential) is ahead:
            del self._ahead[credential]

    def _caller(self, credential: int, scope: Scope) -> str:
        return self._callers.get(credential) or f"stranger {self._address_of(scope)}"

    async def _page(self, credential: int, scope: Scope, receive: Receive, send: Send) -> None:
        caller = self._caller(credential, scope)
        slots = self._slots.get(caller)
        if slots is None:
            at_once = TENANT_AT_ONCE if caller.startswith(OF_TENANT) else AT_ONCE
            slots = self._slots[caller] = Slots(asyncio.Semaphore(at_once))
        slots.users += 1
        try:
            await self._in_turn(slots, credential, scope, receive, send)
        finally:
            slots.users -= 1
            if not slots.users:
                del self._slots[caller]

    async def _in_turn(self, slots: Slots, credential: int, scope: Scope, receive: Receive, send: Send) -> None:
        if slots.users > AT_ONCE + WAITING:
            await _too_many(scope, send)
            return
        refusal = self._refusal(credential)
        if refusal is not None:
            await asyncio.sleep(min(PAUSE_SECONDS, refusal.until - _now()))
        try:
            await asyncio.wait_for(slots.free.acquire(), PATIENCE_SECONDS)
        except TimeoutError:
            await _too_many(scope, send)
            return
        try:
            refusal = self._refusal(credential)
            if refusal is None:
                await self._inner(scope, receive, self._watched(credential, send))
                return
        finally:
            slots.free.release()
        await _repeat(refusal, send)

    async def _stream(self, caller: str, scope: Scope, receive: Receive, send: Send) -> None:
        if self._streams[caller] >= STREAMS:
            await _too_many(scope, send)
            return
        self._streams[caller] += 1
        try:
            await self._inner(scope, receive, send)
        finally:
            self._streams[caller] -= 1
            if not self._streams[caller]:
                del self._streams[caller]

    def _credential(self, scope: Scope) -> int | None:
        """None if the request does not take turns, or sends no session and no token. Nothing secret is kept.

        It tells people from programs, and pages from the API, because a refusal that is repeated was written for one
        of them.
        """
        if scope["type"] != "http" or scope["path"].startswith(FREE):
            return None
        authorization = header_of(scope, "authorization")
        # Both as Django reads them: another spelling must not be another caller.
        sent = bearer_text(authorization) or authorization or _cookies(scope).get(self._session_cookie, "")
        return hash((sent, "text/html" in header_of(scope, "accept"), _is_api(scope))) if sent else None

    def _refusal(self, credential: int) -> Refusal | None:
        refusal = self._refusals.get(credential)
        return refusal if refusal is not None and refusal.until > _now() else None

    def _watched(self, credential: int, send: Send) -> Send:
        refusal: Refusal | None = None

        async def send_and_watch(message: Message) -> None:
            nonlocal refusal
            if message["type"] == "http.response.start":
                if message["status"] == HTTPStatus.TOO_MANY_REQUESTS:
                    refusal = _refusal_of(message)
            elif refusal is not None:
                refusal.body += message.get("body", b"")
                if not message.get("more_body") and len(refusal.body) <= LONGEST_REFUSAL:
                    self._refusals.put(credential, refusal)
            await send(message)

        return send_and_watch


def _cookies(scope: Scope) -> dict[str, str]:
    fields = [value.decode("latin-1") for name, value in scope["headers"] if name == b"cookie"]
    return parse_cookie("; ".join(fields)) if fields else {}


async def _arrived(receive: Receive) -> Receive:
    """Reads a small body, and gives it out again: nobody holds a turn while it arrives."""
    messages, size, is_whole = deque[Message](), 0, False
    while not is_whole and size <= SMALL_BODY:
        message = await receive()
        messages.append(message)
        size += len(message.get("body", b""))
        is_whole = not message.get("more_body")  # it has ended, or its client has gone

    async def again() -> Message:
        return messages.popleft() if messages else await receive()

    return again


def _is_api(scope: Scope) -> bool:
    return bool(scope["path"].startswith(API))


def _now() -> float:
    return asyncio.get_running_loop().time()


def _refusal_of(message: Message) -> Refusal | None:
    fields = {name.lower(): value for name, value in message["headers"]}
    wait = fields.get(b"retry-after", b"")
    if not wait.isdigit():
        return None
    # An id belongs to one request, and the wait has to be the rest of it.
    kept = [item for item in message["headers"] if item[0].lower() not in (b"retry-after", b"x-request-id")]
    return Refusal(_now() + min(int(wait), REMEMBERED_SECONDS), message["status"], kept)


async def _repeat(refusal: Refusal, send: Send) -> None:
    seconds = max(1, ceil(refusal.until - _now()))
    fields = [*refusal.headers, (b"retry-after", str(seconds).encode())]
    await send({"type": "http.response.start", "status": refusal.status, "headers": fields})
    await send({"type": "http.response.body", "body": refusal.body})


async def _too_many(scope: Scope, send: Send) -> None:
    if _is_api(scope):
        detail = "Too many requests of your account are open at the same time; wait for some of them, then try again."
        headers = {"Retry-After": "1", "Cache-Control": "no-store"}
        await refuse(send, Problem(HTTPStatus.TOO_MANY_REQUESTS, "too-many-at-once", detail, headers=headers))
        return
    sentence = b"You are loading too many pages at the same time. Wait until one of them is there, then try again."
    fields = {"Content-Type": "text/plain; charset=utf-8", "Retry-After": "1", "Cache-Control": "no-store"}
    await respond(send, HTTPStatus.TOO_MANY_REQUESTS, fields, sentence)
