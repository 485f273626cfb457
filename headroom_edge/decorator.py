"""A decorator that limits calls of a function: @limited(limiter, tenant=…, endpoint="reports:build")."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, TypeVar, cast

from headroom_edge import AsyncLimiter, Check, Decision, Limiter
from headroom_edge.problems import Problem
from headroom_edge.request_guard import Guard, GuardRules, RequestVerdict
from headroom_edge.response_timer import ResponseTimer

Function = TypeVar("Function", bound=Callable[..., Any])
# A value, or a function that computes it from the limited function's arguments.
TenantArgument = str | Callable[..., str]
SubjectArgument = Mapping[str, str | None] | Callable[..., Mapping[str, str | None]]
CheckFactory = Callable[..., Check]
RETURNED = 200  # recorded for a function that returns; one that raises is recorded as 500


class QuotaExceededError(Exception):
    """The limit denied the call, so the function was not called. `problem` and `headers` fit an HTTP response."""

    def __init__(self, problem: Problem, verdict: RequestVerdict) -> None:
        super().__init__(problem.detail)
        self.problem = problem
        self.headers = verdict.headers
        self.decision = verdict.decision


def limited(
    limiter: Limiter | AsyncLimiter,
    *,
    tenant: TenantArgument,
    endpoint: str,
    subject: SubjectArgument | None = None,
    cost: int | None = None,
    priority: str = "",
    rules: GuardRules | None = None,
) -> Callable[[Function], Function]:
    """Limit calls of a function. A coroutine function needs an AsyncLimiter, any other a Limiter."""

    def check_for(*arguments: Any, **named: Any) -> Check:
        who = tenant(*arguments, **named) if callable(tenant) else tenant
        counted = subject(*arguments, **named) if callable(subject) else subject
        return Check(who, endpoint, counted or {}, cost, secrets.token_hex(12), priority)

    around = _around_async if isinstance(limiter, AsyncLimiter) else _around
    return cast("Callable[[Function], Function]", partial(around, cast("Any", limiter), Guard(rules), check_for))


def _around(
    limiter: Limiter, guard: Guard, check_for: CheckFactory, function: Callable[..., Any]
) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        check = check_for(*arguments, **named)
        verdict = limiter.converse(lambda core: guard.decide(core, check, guard.rules.max_wait_ms))
        decision, timer = _allowed(verdict), None
        try:
            if verdict.wait_s:
                time.sleep(verdict.wait_s)
            with ResponseTimer(limiter, verdict) as timer:
                answer = function(*arguments, **named)
                timer.stop(RETURNED)
                return answer
        finally:
            limiter.release(decision, result=timer.result if timer else "ignore")

    return call


def _around_async(
    limiter: AsyncLimiter, guard: Guard, check_for: CheckFactory, function: Callable[..., Any]
) -> Callable[..., Any]:
    @wraps(function)
    async def call(*arguments: Any, **named: Any) -> Any:
        check = check_for(*arguments, **named)
        verdict = await limiter.converse(lambda core: guard.decide(core, check, guard.rules.max_wait_ms))
        decision, timer = _allowed(verdict), None
        try:
            if verdict.wait_s:
                await asyncio.sleep(verdict.wait_s)
            with ResponseTimer(limiter, verdict) as timer:
                answer = await function(*arguments, **named)
                timer.stop(RETURNED)
                return answer
        finally:
            await limiter.release(decision, result=timer.result if timer else "ignore")

    return call


def _allowed(verdict: RequestVerdict) -> Decision:
    if verdict.problem is not None:
        raise QuotaExceededError(verdict.problem, verdict)
    return cast("Decision", verdict.decision)
