"""From decisions to Envoy's RateLimitResponse. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from headroom_edge import Decision
from headroom_edge.gateway.rls.messages_pb2 import RateLimitResponse
from headroom_edge.problems import Problem
from headroom_edge.request_guard import refusal

OK: Final = RateLimitResponse.OK
OVER_LIMIT: Final = RateLimitResponse.OVER_LIMIT
NOT_ASKED: Final = RateLimitResponse.UNKNOWN

MOST: Final = 2**32 - 1  # what a uint32 holds
SECOND_US: Final = 1_000_000
METADATA_KEPT: Final = 4_096
# A limit per five minutes, say, has no unit in Envoy's protocol. RateLimit-Policy tells its window.
UNITS: Final = {
    1: RateLimitResponse.RateLimit.SECOND,
    60: RateLimitResponse.RateLimit.MINUTE,
    3_600: RateLimitResponse.RateLimit.HOUR,
    86_400: RateLimitResponse.RateLimit.DAY,
}


def response_of(
    decisions: Sequence[Decision], decisive: Decision, headers: Mapping[str, str], problem: Problem | None = None
) -> bytes:
    """`decisive`: the decision that headers and metadata are about. `problem`: why the request is refused."""
    response = RateLimitResponse(overall_code=OK if problem is None else OVER_LIMIT)
    for decision in decisions:
        is_refused = not decision.allowed or (problem is not None and decision is decisive)
        _add_status(response, decision, OVER_LIMIT if is_refused else OK)
    _add_text(response, headers, problem, decisive)
    about = _metadata(decisive.check.tenant, decisive.limit, decisive.reason, decisive.revision)
    return response.SerializeToString() + about


def refused_unasked(problems: Sequence[Problem | None]) -> bytes:
    """Refused before any check was made: one problem, or None, for each descriptor."""
    response = RateLimitResponse(overall_code=OVER_LIMIT)
    for problem in problems:
        response.statuses.add(code=NOT_ASKED if problem is None else OVER_LIMIT)
    found = next(problem for problem in problems if problem is not None)
    _add_text(response, {}, found, None)
    response.dynamic_metadata.update({"reason": found.code})
    return response.SerializeToString()


def let_through_unasked(count: int, headers: Mapping[str, str]) -> bytes:
    response = RateLimitResponse(overall_code=OK)
    for _ in range(count):
        response.statuses.add(code=OK)
    _add_text(response, headers, None, None)
    return response.SerializeToString()


def _add_status(response: RateLimitResponse, decision: Decision, code: RateLimitResponse.Code) -> None:
    status = response.statuses.add(code=code)
    if not decision.limit:
        return
    status.limit_remaining = min(decision.remaining, MOST)
    status.current_limit.requests_per_unit = min(decision.quota, MOST)
    status.current_limit.name = decision.limit
    unit = UNITS.get(_window_s(decision))
    if unit is not None:
        status.current_limit.unit = unit
    seconds, rest_us = divmod(decision.reset_us, SECOND_US)
    status.duration_until_reset.seconds, status.duration_until_reset.nanos = seconds, rest_us * 1_000


def _window_s(decision: Decision) -> int:
    """0 if it is not known."""
    name = decision.limit.encode()
    for row in decision.raw_rows:
        if row[0] == name:
            window_s: int = row[3]
            return window_s
    return 0


@lru_cache(maxsize=METADATA_KEPT)
def _metadata(tenant: str, limit: str, reason: str, revision: int) -> bytes:
    """The part of a response with the metadata: encoded messages are merged by putting one behind the other."""
    response = RateLimitResponse()
    response.dynamic_metadata.update({"tenant": tenant, "limit": limit, "reason": reason, "revision": revision})
    return response.SerializeToString()


def _add_text(
    response: RateLimitResponse, headers: Mapping[str, str], problem: Problem | None, decision: Decision | None
) -> None:
    if problem is not None:
        # Envoy answers every refusal of this service with one status, and the document must not tell another.
        verdict = refusal(replace(problem, status=HTTPStatus.TOO_MANY_REQUESTS), decision, headers)
        headers = verdict.headers
        response.raw_body = verdict.body
    for name, value in headers.items():
        response.response_headers_to_add.add(key=name, value=value)
