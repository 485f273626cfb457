"""Middleware for Django, sync and async. Put it first in MIDDLEWARE, so that a denied request costs no SQL."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from headroom_edge import AsyncLimiter, Limiter
from headroom_edge.keys import SHARDS
from headroom_edge.plan.paths import AS_ROUTED
from headroom_edge.request_guard import Guard, Request, RequestVerdict
from headroom_edge.response_timer import ResponseTimer
from headroom_edge.results import Result, of_error, of_status
from headroom_edge.settings import BUDGET_MS, Options


@cache
def limiter() -> Limiter:
    return Limiter.from_url(_store(), **_options())


@cache
def async_limiter() -> AsyncLimiter:
    return AsyncLimiter.from_url(_store(), **_options())


@cache
def guard() -> Guard:
    return Guard(getattr(settings, "HEADROOM_RULES", None))


def request_of(request: HttpRequest) -> Request:
    def header(name: str) -> str:
        return request.headers.get(name, "")

    peer = request.META.get("REMOTE_ADDR") or ""
    return Request(request.method or "GET", request.path, peer, header, AS_ROUTED, request)


def _store() -> str:
    store: str = getattr(settings, "HEADROOM_STORE", "") or settings.REDIS_URL
    return store


def _options() -> Options:
    return {
        "shards": getattr(settings, "HEADROOM_SHARDS", SHARDS),
        "budget_ms": getattr(settings, "HEADROOM_BUDGET_MS", BUDGET_MS),
        "fail": getattr(settings, "HEADROOM_FAIL", None),
        "leases": getattr(settings, "HEADROOM_LEASES", False),
    }


GetResponse = Callable[[HttpRequest], Any]
Release = Callable[[Result], Any]
TIMED = "headroom.watched"  # tells a throttle behind the middleware that the response is timed already


class QuotaMiddleware:
    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        request.META[TIMED] = "1"
        return self._later(request) if self._is_async else self._now(request)

    def _now(self, request: HttpRequest) -> HttpResponseBase:
        verdict = limiter().converse(lambda core: guard().judge(core, request_of(request)))
        if verdict.problem is not None:
            return refused(verdict)
        release = release_of(verdict)
        try:
            if verdict.wait_s:
                time.sleep(verdict.wait_s)
            with ResponseTimer(limiter(), verdict) as timer:
                return finished(self.get_response(request), verdict, release, timer)
        except BaseException as error:
            release(of_error(type(error)))
            raise

    async def _later(self, request: HttpRequest) -> HttpResponseBase:
        verdict = await async_limiter().converse(lambda core: guard().judge(core, request_of(request)))
        if verdict.problem is not None:
            return refused(verdict)
        release = partial(_release_on, asyncio.get_running_loop(), verdict) if verdict.holds else _nothing
        try:
            if verdict.wait_s:
                await asyncio.sleep(verdict.wait_s)
            with ResponseTimer(async_limiter(), verdict) as timer:
                return finished(await self.get_response(request), verdict, release, timer)
        except BaseException as error:
            release(of_error(type(error)))
            raise


def finished(
    response: HttpResponseBase, verdict: RequestVerdict, release: Release, timer: ResponseTimer | None
) -> HttpResponseBase:
    if timer is not None:
        timer.stop(response.status_code)
    for name, value in verdict.headers.items():
        response[name] = value
    close, stream = response.close, _watched(response) if verdict.holds else None

    def close_and_release() -> None:
        close()
        release(stream.result if stream else of_status(response.status_code))

    # The server closes every response, even if the client has gone.
    response.close = close_and_release  # type: ignore[method-assign]
    return response


class _Stream:
    """How the body of a streaming response ended; `ignore` until it does, because the client may leave before."""

    def __init__(self, response: StreamingHttpResponse) -> None:
        self.result: Result = "ignore"
        self._response = response

    def now(self, content: Iterable[bytes]) -> Iterator[bytes]:
        with self._outcome():
            yield from content

    async def later(self, content: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        with self._outcome():
            async for part in content:
                yield part

    @contextmanager
    def _outcome(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.result = of_error(type(error))
            raise
        self.result = of_status(self._response.status_code)


def _watched(response: HttpResponseBase) -> _Stream | None:
    """None: the body is there already, or a file that the server may send by itself."""
    if not isinstance(response, StreamingHttpResponse) or getattr(response, "file_to_stream", None) is not None:
        return None
    stream, content = _Stream(response), response.streaming_content
    if isinstance(content, AsyncIterable):
        response.streaming_content = stream.later(content)
    else:
        response.streaming_content = stream.now(content)
    return stream


def refused(verdict: RequestVerdict) -> HttpResponse:
    return HttpResponse(verdict.body, status=verdict.status, headers=verdict.headers)


def release_of(verdict: RequestVerdict) -> Release:
    decision = verdict.decision
    if decision is None or not verdict.holds:
        return _nothing
    return lambda result: limiter().release(decision, result=result)


def _release_on(loop: asyncio.AbstractEventLoop, verdict: RequestVerdict, result: Result) -> None:
    """Django closes responses in a thread, so the release is handed to the event loop."""
    if verdict.decision is not None:
        asyncio.run_coroutine_threadsafe(async_limiter().release(verdict.decision, result=result), loop)


def _nothing(_: Result) -> None:
    pass
