"""The check server: for uvicorn, `http=CheckProtocol` with a `Gateway` as the application.

It decides by callbacks, without ASGI, a task or a future per request. The Gateway under ASGI must answer the same.
How HTTP is read, and the bounds, are those of `BoundedProtocol`; a head that is known byte by byte is not parsed again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import unquote

import httptools

from headroom_edge import Check, Decision
from headroom_edge.asgi import Scope
from headroom_edge.gateway.authz import USUAL_QUERIES, original, response_of
from headroom_edge.gateway.bounds import BoundedProtocol
from headroom_edge.gateway.exchange import Exchange, Fields
from headroom_edge.gateway.server import (
    AUTHZ,
    CHECK,
    HEALTH,
    HEALTHY,
    KNOWN,
    LONGEST_BODY,
    RELEASE,
    SMALL_BODY,
    Gateway,
    no_such_path,
    only_post,
)
from headroom_edge.problems import Problem
from headroom_edge.recent_cache import RecentCache
from headroom_edge.request_guard import Request, RequestVerdict, key_text, refusal

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
HEAD_END: Final = b"\r\n\r\n"
POST: Final = b"POST "
# Targets as most are sent: path and query.
TARGETS: Final = {path.encode(): (path, b"") for path in (CHECK, RELEASE, AUTHZ, HEALTH)} | {
    AUTHZ.encode() + b"?" + query: (AUTHZ, query) for query in USUAL_QUERIES if query
}
BUG: Final = b"Internal Server Error"  # as uvicorn says it
LONGEST_KNOWN_HEAD: Final = 2_048
HEADS_KEPT: Final = 1_024  # in one process; those of callers that are known


@dataclass(frozen=True, slots=True)
class KnownHead:
    """What the bytes of a head mean. They hold the credential, so no caller gets what another one's bytes mean."""

    path: str
    fields: Fields
    token: str
    body_bytes: int


_heads: Final[RecentCache[bytes, KnownHead]] = RecentCache(HEADS_KEPT)


class CheckProtocol(BoundedProtocol):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        app: object = self.app
        if not isinstance(app, Gateway):
            raise TypeError(
                "CheckProtocol serves a Gateway alone; run uvicorn without other middleware (proxy_headers)."
            )
        self._gateway = app
        self._driver = self._gateway.limiter.callbacks()

    def data_received(self, data: bytes) -> None:
        is_free = not self._has_begun and (self.cycle is None or self.cycle.response_complete)
        if is_free and data.startswith(POST) and self._is_known(data):
            return
        super().data_received(data)
        # Requests that arrive together are all read before the first is answered, so that their number has a bound.
        front = cast("Exchange | None", self._served)
        if front is None or front.response_complete or front.is_asking or self._is_refused:
            return
        if is_free and front is cast("Exchange", self.cycle) and data.startswith(POST) and not front.more_body:
            front.head = self._whole_head(data, front)
        self._go_on(front)

    def _is_known(self, data: bytes) -> bool:
        """Whether these are a known head and all of its body; if so, they are served."""
        end = data.find(HEAD_END) + len(HEAD_END)
        known = _heads.get(data[:end])
        if known is None or len(data) - end != known.body_bytes:
            return False
        if self._is_refused or self.flow.write_paused or self.transport.is_closing():
            return False
        scope = {"type": "http", "method": "POST", "path": known.path, "headers": known.fields, "client": self.client}
        exchange = Exchange(scope, keep_alive=True)
        exchange.more_body = False
        self.cycle = self._served = exchange  # type: ignore[assignment] # as in open_request
        self._all.waiting.pop(self, None)
        try:
            self._ask(exchange, known.path, known.token, data[end:])
        except Exception as error:  # noqa: BLE001 - as in _go_on
            self._failed(exchange, error)
        return True

    @staticmethod
    def _whole_head(data: bytes, exchange: Exchange) -> bytes:
        """The head, if `data` is this request alone, with a body of a stated length."""
        end = data.find(HEAD_END) + len(HEAD_END)
        is_usual = exchange.keep_alive and not exchange.waits_to_continue and exchange.fault is None
        is_alone = 0 < len(exchange.body) == len(data) - end  # no framing, so not in chunks
        return data[:end] if is_usual and is_alone and end <= LONGEST_KNOWN_HEAD else b""

    def open_request(self, fault: Problem | None) -> None:
        is_free = self.cycle is None or self.cycle.response_complete
        scope = cast("Scope", self.scope)
        self._read_target(scope)
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        exchange = Exchange(scope, keep_alive=keep_alive)
        exchange.fault, exchange.waits_to_continue = fault, self.expect_100_continue
        self.cycle = exchange  # type: ignore[assignment] # it has what the parents of this class use
        if not is_free:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def _read_target(self, scope: Scope) -> None:
        """Raises what uvicorn would raise; the parser then calls the request malformed."""
        scope["method"] = self.parser.get_method().decode("ascii")
        usual = TARGETS.get(self.url)
        if usual is not None:
            scope["path"], scope["query_string"] = usual
            return
        target = httptools.parse_url(self.url)
        path = target.path.decode("ascii")
        scope["path"] = unquote(path) if "%" in path else path
        scope["query_string"] = target.query or b""

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """The request is now in front of the pipeline."""
        self._go_on(cycle)

    def _go_on(self, exchange: Exchange) -> None:
        """Do what can be done with what has arrived of the request."""
        try:
            self._serve(exchange, exchange.scope["path"])
        except Exception as error:  # noqa: BLE001 - a bug costs its own request only
            self._failed(exchange, error)

    def _serve(self, exchange: Exchange, path: str) -> None:
        if exchange.fault is not None:
            self._refuse_it(exchange, exchange.fault)
        elif path in (CHECK, RELEASE):
            self._post(exchange, path)
        elif path == AUTHZ:
            self._authz(exchange)
        elif path == HEALTH:
            self._respond(exchange, HTTPStatus.OK, {"Content-Type": "application/json"}, HEALTHY)
        else:
            self._refuse_it(exchange, no_such_path())

    def _post(self, exchange: Exchange, path: str) -> None:
        if exchange.scope["method"] != "POST":
            self._refuse_it(exchange, only_post())
            return
        if exchange.waits_to_continue:
            exchange.waits_to_continue = False
            self.transport.write(CONTINUE)
        size = len(exchange.body)
        if not exchange.more_body or size > LONGEST_BODY:
            raw = bytes(exchange.body) if size <= LONGEST_BODY else None
            self._ask(exchange, path, key_text(exchange.request().header), raw)
        elif size > SMALL_BODY and not exchange.is_known:
            self._object(exchange)
        else:
            self.flow.resume_reading()

    def _ask(self, exchange: Exchange, path: str, token: str, raw: bytes | None) -> None:
        exchange.is_asking = True
        checks, core, failed = self._gateway.checks, self._driver.core, partial(self._failed, exchange)
        if path == RELEASE:
            self._driver.start(checks.release(core, token, raw), partial(self._replied, exchange, token), failed)
            return
        question = checks.question(core, token, raw)
        if isinstance(question, Check):
            self._driver.check(question, partial(self._decided, exchange, token), failed)
        elif isinstance(question, Problem):
            self._replied(exchange, token, question)
        else:
            self._driver.start(question, partial(self._replied, exchange, token), failed)

    def _decided(self, exchange: Exchange, token: str, decision: Decision) -> None:
        self._replied(exchange, token, self._gateway.checks.answer(decision))

    def _replied(self, exchange: Exchange, token: str, reply: bytes | Problem) -> None:
        if isinstance(reply, Problem):
            self._refuse_it(exchange, self._gateway.counted(exchange.scope, reply))
            return
        if exchange.head:
            scope = exchange.scope
            _heads.put(exchange.head, KnownHead(scope["path"], scope["headers"], token, len(exchange.body)))
        self._finish(exchange, exchange.decided(reply, self.server_state.default_headers))

    def _object(self, exchange: Exchange) -> None:
        """Ask who the caller is before more of a large body is read."""
        exchange.is_asking = True
        talk = self._gateway.checks.objection(self._driver.core, key_text(exchange.request().header))
        self._driver.start(talk, partial(self._objected, exchange), partial(self._failed, exchange))

    def _objected(self, exchange: Exchange, problem: Problem | None) -> None:
        if problem is not None:
            self._refuse_it(exchange, self._gateway.counted(exchange.scope, problem))
            return
        exchange.is_asking, exchange.is_known = False, True
        exchange.scope[KNOWN] = True
        if not exchange.disconnected:
            self._go_on(exchange)

    def _authz(self, exchange: Exchange) -> None:
        guard = self._gateway.guard
        request = original(exchange.request(), exchange.scope["query_string"], guard.rules.reading)
        if isinstance(request, Problem):
            self._refuse_it(exchange, request)
            return
        exchange.is_asking = True
        driver, failed = self._driver, partial(self._failed, exchange)
        question = guard.question(driver.core, request)
        if isinstance(question, Check):
            driver.check(question, partial(self._weigh, exchange, request), failed)
        elif question is None:
            driver.start(guard.judge(driver.core, request), partial(self._judged, exchange), failed)
        else:
            self._judged(exchange, question)

    def _weigh(self, exchange: Exchange, request: Request, decision: Decision) -> None:
        guard = self._gateway.guard
        verdict = guard.verdict(decision, guard.patience_ms(request) if decision.wait_us else 0)
        if verdict is not None:
            self._judged(exchange, verdict)
            return
        talk = guard.too_late(self._driver.core, decision)
        self._driver.start(talk, partial(self._judged, exchange), partial(self._failed, exchange))

    def _judged(self, exchange: Exchange, verdict: RequestVerdict) -> None:
        if verdict.problem is not None:
            verdict = self._gateway.counted_verdict(exchange.scope, verdict)
        if verdict.wait_s:
            self.loop.call_later(verdict.wait_s, self._tell, exchange, verdict)
        else:
            self._tell(exchange, verdict)

    def _tell(self, exchange: Exchange, verdict: RequestVerdict) -> None:
        try:
            self._respond(exchange, *response_of(exchange.scope["query_string"], verdict))
        except ValueError as error:  # a field that cannot be sent
            self._failed(exchange, error)

    def _failed(self, exchange: Exchange, error: Exception) -> None:
        self.logger.error("Exception in the check server\n", exc_info=error)
        exchange.keep_alive = False
        self._respond(exchange, HTTPStatus.INTERNAL_SERVER_ERROR, {"Content-Type": "text/plain; charset=utf-8"}, BUG)

    def _refuse_it(self, exchange: Exchange, problem: Problem) -> None:
        self._respond(exchange, problem.status, refusal(problem).headers, problem.body())

    def _respond(self, exchange: Exchange, status: int, headers: dict[str, str], body: bytes) -> None:
        self._finish(exchange, exchange.rendered(status, headers, body, self.server_state.default_headers))

    def _finish(self, exchange: Exchange, payload: bytes) -> None:
        if exchange.disconnected or exchange.response_complete:
            return
        if self.flow.write_paused:
            exchange.is_asking, exchange.unsent = True, payload
            return
        self.transport.write(payload)
        exchange.response_complete = True
        if not exchange.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def resume_writing(self) -> None:
        super().resume_writing()
        front = cast("Exchange | None", self._served)
        if front is not None and front.unsent:
            payload, front.unsent = front.unsent, b""
            self._finish(front, payload)
