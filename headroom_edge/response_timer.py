"""Measures how long the service takes to answer a request, and records its status."""

from __future__ import annotations

import time
from typing import Protocol, Self

from headroom_edge.request_guard import RequestVerdict
from headroom_edge.results import Result, of_error, of_status


class Observer(Protocol):
    def observe(self, *, endpoint: str, status: int, seconds: float) -> None: ...


class ResponseTimer:
    """Starts when the request is let through; stops at the first status or exception. Later calls do nothing.

    `result` is how the request ended so far, for the release of its slot.
    """

    __slots__ = ("_endpoint", "_observer", "_started_s", "result")

    def __init__(self, observer: Observer, verdict: RequestVerdict) -> None:
        self._observer = observer
        self._endpoint = verdict.decision.check.endpoint if verdict.decision is not None else ""
        self._started_s = time.perf_counter()
        self.result: Result = "ignore"

    def stop(self, status: int) -> None:
        endpoint, self._endpoint = self._endpoint, ""
        if endpoint:
            self.result = of_status(status)
            seconds = time.perf_counter() - self._started_s
            self._observer.observe(endpoint=endpoint, status=status, seconds=seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, Exception):
            # The server will answer with 500.
            self.stop(500)
        if kind is not None:
            self.result = of_error(kind)
