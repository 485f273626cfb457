"""The gateway as an ASGI application: `POST /v1/check`, `POST /v1/release` and `/v1/authz`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Final

from headroom_edge import AsyncLimiter
from headroom_edge.asgi import App, Message, Receive, Scope, Send, header_of, request_of, respond
from headroom_edge.core import Conversation, Core
from headroom_edge.gateway.authz import original, response_of
from headroom_edge.gateway.bad_tokens import BadTokens
from headroom_edge.gateway.check import CheckHandler
from headroom_edge.problems import Problem, bad_request
from headroom_edge.request_guard import Guard, GuardRules, RequestVerdict, key_text, refusal
from headroom_edge.settings import READY_MS

LONGEST_BODY: Final = 1_048_576
SMALL_BODY: Final = 16_384  # read before the caller is known
KNOWN: Final = "headroom.known"  # in the scope of a request whose caller is known before its body has arrived
# Says that the process serves. Not the state of the store: a restart would not mend that.
HEALTH: Final = "/healthz"
CHECK: Final = "/v1/check"
RELEASE: Final = "/v1/release"
AUTHZ: Final = "/v1/authz"
HEALTHY: Final = b'{"status":"ok"}'
JSON: Final = (b"content-type", b"application/json")
NO_SUCH_PATH: Final = (
    "The gateway has no such path; docs/gateway.md lists its paths, and the REST API has another address."
)

Handler = Callable[[Scope, Receive, Send], Awaitable[None]]
Ask = Callable[[Core, str, bytes | None], Conversation[bytes | Problem]]


class Gateway:
    """Serves `paths` and /healthz. Other paths get 404 unless it is mounted beside another application."""

    def __init__(self, limiter: AsyncLimiter, rules: GuardRules | None = None) -> None:
        self.limiter = limiter
        self.guard = Guard(rules)
        self.bad_tokens = BadTokens()
        self.checks = CheckHandler(self.guard)
        self._handlers: dict[str, Handler] = {
            CHECK: partial(self._post, self.checks.check),
            RELEASE: partial(self._post, self.checks.release),
            AUTHZ: self._authz,
            HEALTH: self._health,
        }

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(self._handlers) - {HEALTH}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        handler = self._handlers.get(scope["path"])
        if handler is None or scope["type"] != "http":
            await refuse(send, no_such_path())
            return
        await handler(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await self.limiter.converse(self.guard.warm, budget_ms=READY_MS)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.limiter.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _post(self, ask: Ask, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await refuse(send, only_post())
            return
        token = key_text(partial(header_of, scope))
        message = await receive()
        part: bytes = message.get("body", b"")
        body: bytes | Problem | None = part
        if message.get("more_body") or not part or len(part) > SMALL_BODY:
            body = await read_body(message, receive, partial(self._objection, scope, token))
        if isinstance(body, Problem):
            reply: bytes | Problem = body
        else:
            reply = await self.limiter.converse(lambda core: ask(core, token, body))
        await _send(send, self.counted(scope, reply) if isinstance(reply, Problem) else reply)

    async def _objection(self, scope: Scope, token: str) -> Problem | None:
        problem = await self.limiter.converse(lambda core: self.checks.objection(core, token))
        if problem is None:
            scope[KNOWN] = True
        return problem

    async def _authz(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = original(scope, self.guard.rules.reading)
        if isinstance(request, Problem):
            await refuse(send, request)
            return
        verdict = await self.limiter.converse(lambda core: self.guard.judge(core, request))
        verdict = self.counted_verdict(scope, verdict)
        if verdict.wait_s:
            await asyncio.sleep(verdict.wait_s)
        answer = response_of(scope, verdict)
        await respond(send, answer.status, answer.headers, answer.body)

    def counted_verdict(self, scope: Scope, verdict: RequestVerdict) -> RequestVerdict:
        if verdict.problem is None or verdict.status != HTTPStatus.UNAUTHORIZED:
            return verdict
        return refusal(self.counted(scope, verdict.problem))

    def counted(self, scope: Scope, problem: Problem) -> Problem:
        """A refused token counts against the client's address."""
        if problem.status != HTTPStatus.UNAUTHORIZED:
            return problem
        return self.bad_tokens.judge(problem, self.guard.client_ip(request_of(scope)))

    async def _health(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _send(send, HEALTHY)


def mounted(inner: Callable[..., Awaitable[None]], gateway: Gateway) -> App:
    """One application: `gateway` serves its paths and the lifespan, which `inner` (Django) does not support."""
    paths = gateway.paths

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        is_ours = kind == "lifespan" or (kind == "http" and scope["path"] in paths)
        await (gateway if is_ours else inner)(scope, receive, send)

    return application


async def read_body(
    first: Message, receive: Receive, objection: Callable[[], Awaitable[Problem | None]]
) -> bytes | Problem | None:
    """None if it is too long. `objection` is asked before a body that is not small is read."""
    message = first
    chunks: list[bytes] = [message.get("body", b"")]
    size = len(chunks[0])
    is_known = False
    while message.get("more_body") and size <= LONGEST_BODY:
        if size > SMALL_BODY and not is_known:
            if (problem := await objection()) is not None:
                return problem
            is_known = True
        message = await receive()
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
    if message["type"] == "http.disconnect":
        return bad_request("incomplete-body", "The connection ended before the body; send all of it.")
    return b"".join(chunks) if size <= LONGEST_BODY else None


async def _send(send: Send, reply: bytes | Problem) -> None:
    if isinstance(reply, Problem):
        await refuse(send, reply)
        return
    fields = [JSON, (b"content-length", b"%d" % len(reply))]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": reply})


async def refuse(send: Send, problem: Problem) -> None:
    verdict: RequestVerdict = refusal(problem)
    await respond(send, problem.status, verdict.headers, verdict.body)


def no_such_path() -> Problem:
    return Problem(HTTPStatus.NOT_FOUND, "not-found", NO_SUCH_PATH)


def only_post() -> Problem:
    return Problem(HTTPStatus.METHOD_NOT_ALLOWED, "method-not-allowed", "Use POST.", headers={"Allow": "POST"})
