"""Middleware for WSGI (Flask, …): `app.wsgi_app = QuotaMiddleware(app.wsgi_app, store="redis://…")`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Any

from headroom_edge import Limiter
from headroom_edge.plan.paths import AS_ROUTED
from headroom_edge.request_guard import Guard, GuardRules, Request, RequestVerdict
from headroom_edge.response_timer import ResponseTimer
from headroom_edge.results import Result

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
App = Callable[[Environ, StartResponse], Iterable[bytes]]


class QuotaMiddleware:
    """Wrap it around everything else, so that a denied request reaches no other middleware."""

    def __init__(
        self,
        app: App,
        store: str = "redis://localhost:6379/0",
        *,
        rules: GuardRules | None = None,
        limiter: Limiter | None = None,
    ) -> None:
        self.app = app
        self.limiter = limiter or Limiter.from_url(store)
        self.guard = Guard(rules)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        request = request_of(environ)
        verdict = self.limiter.converse(lambda core: self.guard.judge(core, request))
        if verdict.problem is not None:
            start_response(_status(verdict.problem.status), list(verdict.headers.items()))
            return [verdict.body]
        if verdict.wait_s:
            time.sleep(verdict.wait_s)

        timer = ResponseTimer(self.limiter, verdict)

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            timer.stop(int(status[:3]))
            return start_response(status, [*headers, *verdict.headers.items()], *more)

        if not verdict.holds:
            with timer:
                return self.app(environ, start)
        return self._answer(environ, start, verdict, timer)

    def _answer(
        self, environ: Environ, start: StartResponse, verdict: RequestVerdict, timer: ResponseTimer
    ) -> Iterable[bytes]:
        try:
            with timer:
                return _Held(self.app(environ, start), timer, lambda result: self._release(verdict, result))
        except BaseException:
            self._release(verdict, timer.result)
            raise

    def _release(self, verdict: RequestVerdict, result: Result) -> None:
        if verdict.decision is not None:
            self.limiter.release(verdict.decision, result=result)


class _Held:
    """A response that releases its concurrency slot on close(), which servers call even if the client has gone."""

    def __init__(self, answer: Iterable[bytes], timer: ResponseTimer, release: Callable[[Result], None]) -> None:
        self._answer = answer
        self._timer = timer
        self._release = release
        # A body in one piece is there already, whether the server reads it or not.
        self._is_over = isinstance(answer, list | tuple)

    def __iter__(self) -> Iterator[bytes]:
        try:
            with self._timer:
                yield from self._answer
        finally:
            self._is_over = True

    def close(self) -> None:
        try:
            close = getattr(self._answer, "close", None)
            if close is not None:
                close()
        finally:
            # Otherwise the client left before the end.
            self._release(self._timer.result if self._is_over else "ignore")


def request_of(environ: Environ) -> Request:
    def header(name: str) -> str:
        value: str = environ.get("HTTP_" + name.upper().replace("-", "_"), "")
        return value

    # WSGI passes the path's bytes as Latin-1 text.
    path = (environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1").decode("utf-8", "replace")
    return Request(environ["REQUEST_METHOD"], path, environ.get("REMOTE_ADDR", ""), header, AS_ROUTED, environ)


def _status(code: int) -> str:
    return f"{int(code)} {HTTPStatus(code).phrase}"
