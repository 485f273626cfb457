"""Middleware for Django, sync and async. Put it first in MIDDLEWARE, so that a denied request costs no SQL."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import cache, partial
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from headroom_edge import AsyncLimiter, Limiter
from headroom_edge.keys import SHARDS
from headroom_edge.plan.paths import AS_ROUTED
from headroom_edge.request_guard import Guard, Request, RequestVerdict
from headroom_edge.response_timer import ResponseTimer
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
Release = Callable[[], Any]
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
        except BaseException:
            release()
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
        except BaseException:
            release()
            raise


def finished(
    response: HttpResponseBase, verdict: RequestVerdict, release: Release, timer: ResponseTimer | None
) -> HttpResponseBase:
    if timer is not None:
        timer.stop(response.status_code)
    for name, value in verdict.headers.items():
        response[name] = value
    close = response.close

    def close_and_release() -> None:
        close()
        release()

    # The server closes every response, even if the client has gone.
    response.close = close_and_release  # type: ignore[method-assign]
    return response


def refused(verdict: RequestVerdict) -> HttpResponse:
    return HttpResponse(verdict.body, status=verdict.status, headers=verdict.headers)


def release_of(verdict: RequestVerdict) -> Release:
    decision = verdict.decision
    return partial(limiter().release, decision) if decision is not None and verdict.holds else _nothing


def _release_on(loop: asyncio.AbstractEventLoop, verdict: RequestVerdict) -> None:
    """Django closes responses in a thread, so the release is handed to the event loop."""
    if verdict.decision is not None:
        asyncio.run_coroutine_threadsafe(async_limiter().release(verdict.decision), loop)


def _nothing() -> None:
    pass
