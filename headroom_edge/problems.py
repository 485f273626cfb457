"""Refusals as application/problem+json (RFC 9457), each with a stable code."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from headroom_edge import Decision
from headroom_edge.decision import LimitRow
from headroom_edge.headers import seconds_up

CONTENT_TYPE: Final = "application/problem+json"
REGISTRY: Final = "https://iana.org/assignments/http-problem-types#"
QUOTA_EXCEEDED: Final = "quota-exceeded"
REDUCED_CAPACITY: Final = "temporary-reduced-capacity"
REGISTERED: Final = frozenset({QUOTA_EXCEEDED, REDUCED_CAPACITY})

# What a limit that borrows says when it denies, by the cause in its row.
_CAUSES: Final = {
    "pool": "Your share of the limit {!r} is used, and its pool lends no more at this priority",
    "share": "Your share of the limit {!r} is used, and so is your fair part of what its pool lends",
    "ceiling": "The ceiling of the limit {!r} is reached",
}
_USED_UP: Final = "The limit {!r} is used up"

_TITLES: Final = {
    QUOTA_EXCEEDED: "Quota exceeded",
    REDUCED_CAPACITY: "Temporarily reduced capacity",
}


@dataclass(frozen=True, slots=True)
class Problem:
    status: int
    code: str
    detail: str  # one sentence that says what to change
    extra: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        return {
            "type": REGISTRY + self.code if self.code in REGISTERED else "about:blank",
            "title": _TITLES.get(self.code) or HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            **self.extra,
        }

    def body(self) -> bytes:
        return json.dumps(self.document(), separators=(",", ":")).encode()


def bad_request(code: str, detail: str, field_name: str = "") -> Problem:
    return Problem(HTTPStatus.BAD_REQUEST, code, detail, {"field": field_name} if field_name else {})


def too_large() -> Problem:
    return Problem(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", "The body is over 1 MiB; send fewer checks at once."
    )


def too_long() -> Problem:
    return Problem(HTTPStatus.REQUEST_URI_TOO_LONG, "path-too-long", "The path is over 8,192 characters; shorten it.")


def unauthorised(detail: str) -> Problem:
    return Problem(HTTPStatus.UNAUTHORIZED, "unauthorized", detail, headers={"WWW-Authenticate": "Bearer"})


def forbidden(code: str, detail: str) -> Problem:
    return Problem(HTTPStatus.FORBIDDEN, code, detail)


def unavailable() -> Problem:
    return busy("Limits cannot be checked at the moment; try again in a second.")


def busy(detail: str) -> Problem:
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, REDUCED_CAPACITY, detail, headers={"Retry-After": "1"})


def problem_of(decision: Decision, limits_url: str = "") -> Problem:
    """The problem of a denied decision. `{tenant}` in `limits_url` is replaced by the tenant's name."""
    reason = decision.reason
    if reason == "suspended":
        return forbidden("tenant-suspended", "The account is suspended; contact the operator of this service.")
    if reason == "unknown_tenant":
        return forbidden("unknown-tenant", "The account is unknown; check which account the request is made for.")
    if reason in ("unavailable", "not_ready"):
        return unavailable()
    extra = _about(decision)
    if limits_url:
        extra["limits-url"] = limits_url.replace("{tenant}", quote(decision.check.tenant, safe=""))
    return Problem(HTTPStatus.TOO_MANY_REQUESTS, QUOTA_EXCEEDED, _detail(decision), extra)


def _about(decision: Decision) -> dict[str, Any]:
    rows = decision.rows
    violated = [row.name for row in rows if not row.allowed] or [decision.limit]
    row = _decisive(decision)
    about: dict[str, Any] = {"violated-policies": violated, "limit": decision.limit, "reason": decision.reason}
    if row is not None:
        about["subject"] = row.subject
        if row.cause:
            about["cause"] = row.cause
    return about


def _decisive(decision: Decision) -> LimitRow | None:
    """The row of the limit that denied, if rows were asked for."""
    return next((row for row in decision.rows if row.name == decision.limit), None)


def _detail(decision: Decision) -> str:
    if decision.reason == "cost_too_big":
        return (
            f"The request costs more than the limit {decision.limit!r} allows at once ({decision.quota}); "
            "split it into smaller requests."
        )
    seconds, row = max(1, seconds_up(decision.retry_us)), _decisive(decision)
    words = _CAUSES.get(row.cause, _USED_UP) if row else _USED_UP
    return f"{words.format(decision.limit)}; try again in {seconds} s."


def late(decision: Decision, limits_url: str = "") -> Problem:
    """The problem of an admitted request that would have to wait longer than its caller does."""
    seconds = max(1, seconds_up(decision.wait_us))
    extra: dict[str, Any] = {"violated-policies": [decision.limit], "limit": decision.limit, "reason": "too_late"}
    if limits_url:
        extra["limits-url"] = limits_url.replace("{tenant}", quote(decision.check.tenant, safe=""))
    detail = (
        f"The limit {decision.limit!r} delays this request by {seconds} s, longer than the caller waits; retry then."
    )
    headers = {"Retry-After": str(seconds)}
    return Problem(HTTPStatus.TOO_MANY_REQUESTS, QUOTA_EXCEEDED, detail, extra, headers)
