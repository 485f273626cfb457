"""How long the service took to answer a request that was let through, and how it ended."""

from __future__ import annotations

import time
from typing import Protocol, Self

from headroom_edge.guard import RequestVerdict


class Observer(Protocol):
    def observe(self, *, endpoint: str, status: int, seconds: float) -> None: ...


class ResponseTimer:
    """Begins when the request goes on; the first status ends it, or what breaks inside."""

    __slots__ = ("_endpoint", "_observer", "_started_s")

    def __init__(self, observer: Observer, verdict: RequestVerdict) -> None:
        self._observer = observer
        self._endpoint = verdict.decision.check.endpoint if verdict.decision is not None else ""
        self._started_s = time.perf_counter()

    def stop(self, status: int) -> None:
        endpoint, self._endpoint = self._endpoint, ""
        if endpoint:
            seconds = time.perf_counter() - self._started_s
            self._observer.observe(endpoint=endpoint, status=status, seconds=seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, Exception):
            # What the server answers for it.
            self.stop(500)
