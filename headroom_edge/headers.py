"""Rate limit headers. Only this module and its twin for nginx write them; docs/headers.md has the rules and a table."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from headroom_edge.decision import Decision

SECOND_US: Final = 1_000_000
# Retry-After of a refusal while the store is down, when the real time is unknown.
CONCURRENT: Final = '"concurrent-requests"'
COST: Final = b"cost"
COST_PARAMETER: Final = "headroom-unit=cost"
POLICIES_KEPT: Final = 4_096

Draft = Literal["11"]
Triple = Literal["RateLimit", "X-RateLimit"]
Reset = Literal["delta", "epoch"]


@dataclass(frozen=True, slots=True)
class Profile:
    """Which headers a response carries. `triple` adds -Limit, -Remaining and -Reset with that prefix."""

    draft: Draft | None = "11"
    triple: Triple | None = None
    reset: Reset = "delta"
    clock: Callable[[], float] = time.time


DRAFT: Final = Profile()


def render(decision: Decision, profile: Profile = DRAFT) -> dict[str, str]:
    fields: dict[str, str] = {}
    if decision.failure is not None:
        fields["Headroom-Degraded"] = decision.failure
    elif decision.limit:
        if profile.draft:
            _add_draft(fields, decision)
        if profile.triple:
            fields |= _triple(decision, profile)
    if not decision.allowed and decision.retry_us >= 0:
        fields["Retry-After"] = str(max(1, seconds_up(decision.retry_us)))
    return fields


def _add_draft(fields: dict[str, str], decision: Decision) -> None:
    rows = decision.raw_rows
    if not rows:
        fields["RateLimit"] = _item(quoted(decision.limit), decision.quota, decision.remaining, decision.reset_us)
        return
    # On the path of every request, so the raw rows are used, without decoding them to LimitRow.
    policies, items = [], []
    for name, _, quota, window_s, remaining, reset_us, _, _, _, unit, _, _ in rows:
        policies.append(_policy(name, quota, window_s, unit))
        items.append(_item(_quoted(name), quota, remaining, reset_us))
    fields["RateLimit-Policy"] = ", ".join(policies)
    fields["RateLimit"] = ", ".join(items)


@lru_cache(maxsize=POLICIES_KEPT)
def _policy(name: bytes, quota: int, window_s: int, unit: bytes) -> str:
    parts = [_quoted(name), f"q={quota}"]
    if window_s:
        parts.append(f"w={window_s}")
    else:
        parts.append(f"qu={CONCURRENT}")
    if unit == COST and window_s:
        parts.append(COST_PARAMETER)
    return ";".join(parts)


@lru_cache(maxsize=POLICIES_KEPT)
def _quoted(name: bytes) -> str:
    return quoted(name.decode())


def _item(name: str, quota: int, remaining: int, reset_us: int) -> str:
    if remaining < quota and reset_us > 0:
        return f"{name};r={remaining};t={-(-reset_us // SECOND_US)}"
    return f"{name};r={remaining}"


def _triple(decision: Decision, profile: Profile) -> dict[str, str]:
    reset_s = seconds_up(decision.reset_us)
    if profile.reset == "epoch":
        reset_s = seconds_up(round(profile.clock() * SECOND_US) + decision.reset_us)
    return {
        f"{profile.triple}-Limit": str(decision.quota),
        f"{profile.triple}-Remaining": str(decision.remaining),
        f"{profile.triple}-Reset": str(reset_s),
    }


def seconds_up(us: int) -> int:
    """Microseconds to whole seconds, rounded up so that nobody retries too early."""
    return -(-us // SECOND_US)


def quoted(name: str) -> str:
    """A Structured Fields string. Non-ASCII characters become `?`: one would make the whole field invalid."""
    safe = "".join(c if " " <= c <= "~" else "?" for c in name)
    return '"' + safe.replace("\\", "\\\\").replace('"', '\\"') + '"'
