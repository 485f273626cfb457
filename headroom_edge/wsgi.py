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

        with timer:
            return self._answer(environ, start, verdict) if verdict.holds else self.app(environ, start)

    def _answer(self, environ: Environ, start: StartResponse, verdict: RequestVerdict) -> Iterable[bytes]:
        try:
            return _Held(self.app(environ, start), lambda: self._release(verdict))
        except BaseException:
            self._release(verdict)
            raise

    def _release(self, verdict: RequestVerdict) -> None:
        if verdict.decision is not None:
            self.limiter.release(verdict.decision)


class _Held:
    """A response that releases its concurrency slot on close(), which servers call even if the client has gone."""

    def __init__(self, answer: Iterable[bytes], release: Callable[[], None]) -> None:
        self._answer = answer
        self._release = release

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._answer)

    def close(self) -> None:
        try:
            close = getattr(self._answer, "close", None)
            if close is not None:
                close()
        finally:
            self._release()


def request_of(environ: Environ) -> Request:
    def header(name: str) -> str:
        value: str = environ.get("HTTP_" + name.upper().replace("-", "_"), "")
        return value

    # WSGI passes the path's bytes as Latin-1 text.
    path = (environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1").decode("utf-8", "replace")
    return Request(environ["REQUEST_METHOD"], path, environ.get("REMOTE_ADDR", ""), header, AS_ROUTED, environ)


def _status(code: int) -> str:
    return f"{int(code)} {HTTPStatus(code).phrase}"
