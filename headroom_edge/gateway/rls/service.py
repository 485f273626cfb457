"""ShouldRateLimit: from Envoy's request to its answer. No I/O, no grpc: conversations, as in `headroom_edge.core`."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError

from headroom_edge import Decision
from headroom_edge.core import CHECK, PEEK, Conversation, Core
from headroom_edge.directory import Credential
from headroom_edge.errors import StoreError
from headroom_edge.failure import LOG_EVERY_S
from headroom_edge.gateway.rls.answers import FaultError, Reply, Status, invalid
from headroom_edge.gateway.rls.descriptors import Question, questions_of
from headroom_edge.gateway.rls.messages_pb2 import HealthCheckRequest, HealthCheckResponse, RateLimitRequest
from headroom_edge.gateway.rls.responses import let_through_unasked, refused_unasked, response_of
from headroom_edge.problems import Problem, late, problem_of, unavailable
from headroom_edge.request_guard import SCOPE, Guard, bearer_text, scope_missing, without_store

logger = logging.getLogger("headroom_edge")

SERVICE: Final = "envoy.service.ratelimit.v3.RateLimitService"
METHOD: Final = "ShouldRateLimit"
# The reply still has to travel. A caller that would get it later has given up by then.
TRAVEL_MS: Final = 10.0
HEALTH: Final = "grpc.health.v1.Health"
HEALTH_PATH: Final = f"/{HEALTH}/Check"
SERVING: Final = HealthCheckResponse(status=HealthCheckResponse.SERVING).SerializeToString()
_UNREADABLE: Final = "The message is not a RateLimitRequest, or a key in it is not UTF-8."


class RateLimitService:
    """Every method raises FaultError where the call ends without a decision."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._log_from_s = 0.0

    def note(self, fault: FaultError) -> None:
        """Log what is wrong with Envoy's configuration: Envoy counts errors, but tells nobody what they say."""
        now = time.monotonic()
        if fault.status is Status.INVALID_ARGUMENT and now >= self._log_from_s:
            self._log_from_s = now + LOG_EVERY_S
            logger.warning("Envoy asked what cannot be answered; change its configuration: %s", fault)

    def answer(
        self, core: Core, message: bytes, *, caller: Credential | None = None, patience_ms: float | None = None
    ) -> Conversation[Reply]:
        """`patience_ms`: how long the caller waits for the reply, if it says so."""
        try:
            request = RateLimitRequest.FromString(message)
        except DecodeError:
            raise invalid(_UNREADABLE) from None
        try:
            questions = yield from questions_of(core, self._guard, request, caller)
        except StoreError:
            return _without_store(core, len(request.descriptors))
        asked = [question for question in questions if isinstance(question, Question)]
        if len(asked) < len(questions):
            problems = [question if isinstance(question, Problem) else None for question in questions]
            return Reply(refused_unasked(problems))
        longest_ms: float = self._guard.rules.max_wait_ms
        if patience_ms is not None:
            longest_ms = min(longest_ms, patience_ms)
        return (yield from self._decide(core, asked, longest_ms))

    def caller(self, core: Core, authorization: str) -> Conversation[Credential]:
        """Who asks, where that has to be known. `authorization`: `Bearer hr_…`."""
        text = bearer_text(authorization)
        if not text:
            raise FaultError(Status.UNAUTHENTICATED, "The token is missing; send authorization: Bearer hr_….")
        try:
            credential = yield from self._guard.directory.credential(core, text)
        except StoreError:
            raise _unavailable() from None
        if credential is None:
            raise FaultError(Status.UNAUTHENTICATED, "The token is unknown, expired or revoked; send a valid one.")
        if SCOPE not in credential.scopes:
            raise FaultError(Status.PERMISSION_DENIED, scope_missing().detail)
        core.chores.key_uses.add(credential.key_id)
        return credential

    def _decide(self, core: Core, asked: Sequence[Question], longest_ms: float) -> Conversation[Reply]:
        try:
            decisions = yield from _decisions(core, asked)
        except ValueError as error:
            raise invalid(str(error)) from None
        decisive = decisions[0] if len(decisions) == 1 else min(decisions, key=_slack)
        if not decisive.allowed:
            problem = problem_of(decisive, self._guard.rules.limits_url)
            return (yield from self._refuse(core, decisions, decisive, problem))
        latest = max(decisions, key=lambda decision: decision.wait_us)
        if latest.wait_ms > longest_ms:
            problem = late(latest, self._guard.rules.limits_url)
            return (yield from self._refuse(core, decisions, latest, problem))
        headers = decisive.headers(self._guard.rules.profile)
        return Reply(response_of(decisions, decisive, headers), latest.wait_us / 1_000_000)

    def _refuse(
        self, core: Core, decisions: Sequence[Decision], decisive: Decision, problem: Problem
    ) -> Conversation[Reply]:
        yield from core.undo(decisions)
        if decisive.failure == "closed":
            raise _unavailable()
        return Reply(response_of(decisions, decisive, decisive.headers(self._guard.rules.profile), problem))


def health_of(message: bytes) -> bytes:
    """The process serves. Not the state of the store: a restart would not mend that. Raises FaultError."""
    try:
        service = HealthCheckRequest.FromString(message).service
    except DecodeError:
        raise invalid("The message is not a HealthCheckRequest.") from None
    if service not in ("", SERVICE):
        raise FaultError(Status.NOT_FOUND, f"There is no such service here; ask for {SERVICE}.")
    return SERVING


def _decisions(core: Core, asked: Sequence[Question]) -> Conversation[list[Decision]]:
    """In the order of the questions. Peeks go first, so that what they tell is not what the others have charged."""
    if not any(one.is_peek for one in asked):
        return (yield from core.decide(CHECK, [one.check for one in asked], True))
    peeked = iter((yield from core.decide(PEEK, [one.check for one in asked if one.is_peek], True)))
    charged = iter((yield from core.decide(CHECK, [one.check for one in asked if not one.is_peek], True)))
    return [next(peeked if one.is_peek else charged) for one in asked]


def _slack(decision: Decision) -> float:
    """Which of several decisions is told: the lowest. A denial comes first, then a degraded one, then the tightest."""
    if not decision.allowed:
        return -3 if decision.failure == "closed" else -2
    if decision.degraded:
        return -1
    return decision.remaining / decision.quota if decision.quota else float("inf")


def _without_store(core: Core, descriptors: int) -> Reply:
    """The caller or the endpoint is unknown, so no limit's failure mode applies: the limiter's default decides."""
    verdict = without_store(core)
    if verdict.problem is not None:
        raise _unavailable()
    return Reply(let_through_unasked(descriptors, verdict.headers))


def _unavailable() -> FaultError:
    return FaultError(Status.UNAVAILABLE, unavailable().detail)
