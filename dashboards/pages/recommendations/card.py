"""A recommendation for display: its summary and life cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from headroom_edge.algorithms.base import Algorithm
from quotas.calibration.burst import Point
from quotas.calibration.sizing import is_sized, point_of
from quotas.models import Recommendation
from quotas.models.recommendation import Kind, Stage, Trust
from quotas.policies.allowance import allowance_of
from quotas.policies.limit_codec import algorithm_load
from quotas.policies.limit_words import Short, algorithm_words, limit_short
from quotas.recommendations.benefit import verb_of

_NOT_MEASURED = {
    "idle": "{:,} without traffic here",
    "overridden": "{:,} with an override",
    "sudden": "{:,} suddenly far above the past",
}


@dataclass(frozen=True, slots=True)
class LifecycleStep:
    name: str
    note: str
    state: str  # done, now, todo


@dataclass(slots=True)
class Card:
    row: Recommendation
    current: Algorithm = field(init=False)
    proposed: Algorithm | None = field(init=False)

    def __post_init__(self) -> None:
        self.current = algorithm_load(self.row.current)
        self.proposed = algorithm_load(self.row.proposed) if self.row.proposed else None

    @property
    def owner(self) -> str:
        return self.row.tenant or self.row.tier or "everyone"

    @property
    def now(self) -> Short:
        return limit_short(self.current)

    @property
    def then(self) -> Short | None:
        return limit_short(self.proposed) if self.proposed else None

    @property
    def algorithm(self) -> str:
        return algorithm_words(self.current.name)

    @property
    def size_now(self) -> Point | None:
        return _size(self.current)

    @property
    def size_then(self) -> Point | None:
        return _size(self.proposed) if self.proposed else None

    @property
    def direction(self) -> str:
        """up, down, or empty for any other change."""
        now, then = self.size_now, self.size_then
        if now is None or then is None or (now.rate, now.burst) == (then.rate, then.burst):
            return ""
        return "up" if then.rate > now.rate or (then.rate == now.rate and then.burst > now.burst) else "down"

    @property
    def verb(self) -> str:
        if self.row.kind == Kind.OVERRIDE:
            return "Override for"
        if self.proposed is None:
            return ""
        if self.size_now is None or self.size_then is None or not self.direction:
            return "Change"
        return verb_of(self.current, self.proposed)

    @property
    def benefit(self) -> str:
        """One sentence with its cost; empty: no forecast yet."""
        return str(self.row.forecast.get("benefit", {}).get("sentence", ""))

    @property
    def rank(self) -> tuple[float, float]:
        """The most 429s ended first, then what frees most."""
        found = self.row.forecast.get("benefit", {})
        return -float(found.get("ended_a_day", 0)), -float(found.get("freed_a_second", 0))

    @property
    def needed(self) -> Short | None:
        """The measured need in the limit's own unit; None: this step is all of it, or it is not known."""
        stored = self.row.evidence.get("needed")
        if not stored or self.proposed is None:
            return None
        needed = algorithm_load(stored)
        return limit_short(needed) if needed != self.proposed else None

    @property
    def unseen(self) -> Mapping[str, Any]:
        """The days that the limit was not fitted on, with the denied shares of now and then."""
        days: Mapping[str, Any] = self.row.forecast.get("unseen") or {}
        if not days.get("units"):
            return {}
        shares = {f"{name}_share": days[f"denied_{name}"] / days["units"] for name in ("now", "then")}
        return {**days, **shares}

    @property
    def window(self) -> tuple[float, str]:
        """The seconds of the limit's own unit, and its name: 10.0 and `10s`."""
        allowance = allowance_of(self.current)
        return (allowance.window_s, allowance.window_words.replace(" ", "")) if allowance else (1.0, "s")

    @property
    def whose(self) -> str:
        """Whose demand it rests on, and why the other tenants do not count."""
        counts: Mapping[str, int] = self.row.evidence.get("counts") or {}
        if not counts or self.row.tenant:
            return ""
        why = [words.format(counts[name]) for name, words in _NOT_MEASURED.items() if counts.get(name)]
        rest = f": {', '.join(why)}" if why else ""
        return f"{counts['measured']:,} of {counts['tenants']:,} tenants measured{rest}"

    @property
    def rate_gain(self) -> float | None:
        now, then = self.size_now, self.size_then
        return then.rate / now.rate - 1 if now and then and now.rate else None

    @property
    def burst_gain(self) -> float | None:
        now, then = self.size_now, self.size_then
        return then.burst / now.burst - 1 if now and then and now.burst else None

    @property
    def bars(self) -> int:
        """Confidence, 1 to 3."""
        return {Trust.HIGH.value: 3, Trust.MEDIUM.value: 2}.get(self.row.trust, 1)

    @property
    def is_waiting(self) -> bool:
        return self.row.stage in (Stage.DRAFT, Stage.SIMULATED)

    @property
    def lacks_data(self) -> bool:
        """Then nothing is proposed, and nothing is known of confidence, effect or excluded data."""
        return self.row.stage == Stage.INSUFFICIENT

    @property
    def group(self) -> str:
        groups = {
            Stage.INSUFFICIENT.value: "Insufficient data",
            Stage.DRAFT.value: "Waiting for approval",
            Stage.SIMULATED.value: "Waiting for approval",
            Stage.APPROVED.value: "In shadow",
            Stage.SHADOW.value: "In shadow",
            Stage.ENFORCED.value: "Enforced, being evaluated",
        }
        return groups.get(self.row.stage, "Closed")


def _size(algorithm: Algorithm) -> Point | None:
    return point_of(algorithm) if is_sized(algorithm) else None


def steps_of(row: Recommendation, shadow: timedelta, evaluate: timedelta, factor: float) -> list[LifecycleStep]:
    """The steps of the life cycle and their states."""
    order = [Stage.DRAFT, Stage.SIMULATED, Stage.APPROVED, Stage.SHADOW, Stage.ENFORCED, Stage.EVALUATED]
    # A simulated recommendation waits for approval, so that is the current step.
    at = {Stage.SIMULATED.value: 2, Stage.APPROVED.value: 3}.get(row.stage, _place(order, row.stage))
    hours, days = shadow.total_seconds() / 3600, evaluate.days
    notes = [
        f"{row.created:%-d %b %H:%M} UTC",
        "replayed on days it had not seen",
        row.decider or "by an approver",
        "not for an override" if row.kind == Kind.OVERRIDE else f"{hours:g} h, counts but never denies",
        f"rolled back if 429s exceed {factor:g} × forecast",
        f"after {days} days: kept or rolled back",
    ]
    names = ["Draft", "Simulated", "Approved", "Shadow", "Enforced", "Evaluated"]
    states = ["done" if place < at else "now" if place == at else "todo" for place in range(len(names))]
    if row.stage == Stage.EVALUATED:
        states[-1] = "done"
    return [LifecycleStep(*facts) for facts in zip(names, notes, states, strict=True)]


def _place(order: Sequence[Stage], stage: str) -> int:
    return next((place for place, one in enumerate(order) if one.value == stage), 0)
