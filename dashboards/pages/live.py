"""Server-sent events that tell open pages when to refresh. One database query serves all streams.

An event says only that usage or configuration changed. The page then fetches itself, with the same permission checks
as before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async
from django.db import Error, close_old_connections
from django.http import HttpRequest, StreamingHttpResponse
from django.views.decorators.http import require_safe

from quotas.status.summary import status_summary_read

EVERY_SECONDS: Final = 1.0
# Proxies close idle connections; a comment line keeps them open.
ALIVE_SECONDS: Final = 15.0
# Browsers reconnect; this ends streams whose client has gone away unnoticed.
LONGEST_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class PageVersion:
    """Two versions differ if a page would look different."""

    drained_at: datetime | None
    revision: int
    published: int | None


@require_safe
def live(request: HttpRequest) -> StreamingHttpResponse:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingHttpResponse(events(), content_type="text/event-stream", headers=headers)


async def events() -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    seen = await _ticker().now()
    ends = loop.time() + LONGEST_SECONDS
    spoke = loop.time()
    yield "retry: 2000\n\n"
    while loop.time() < ends:
        await asyncio.sleep(EVERY_SECONDS)
        mark = await _ticker().now()
        if mark is not None and mark != seen:
            seen, spoke = mark, loop.time()
            yield "event: fresh\ndata: \n\n"
        elif loop.time() - spoke > ALIVE_SECONDS:
            spoke = loop.time()
            yield ": still here\n\n"


class Ticker:
    """Queries at most once a second, however many streams there are."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._looked = float("-inf")
        self._mark: PageVersion | None = None

    async def now(self) -> PageVersion | None:
        """None if the database cannot be reached; that is no reason to refresh."""
        async with self._lock:
            time = asyncio.get_running_loop().time()
            if time - self._looked >= EVERY_SECONDS:
                self._looked = time
                self._mark = await sync_to_async(_look_apart)()
            return self._mark


_TICKERS: WeakKeyDictionary[asyncio.AbstractEventLoop, Ticker] = WeakKeyDictionary()


def _ticker() -> Ticker:
    return _TICKERS.setdefault(asyncio.get_running_loop(), Ticker())


def _look_apart() -> PageVersion | None:
    """Runs in a worker thread, so the thread must close its connection."""
    try:
        return _look()
    finally:
        close_old_connections()


def _look() -> PageVersion | None:
    try:
        pulse = status_summary_read()
    except Error:
        return None
    return PageVersion(pulse.drained_at, pulse.revision, pulse.published)
