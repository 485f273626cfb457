"""A recommendation for display: its summary, life cycle and figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import log
from typing import Any

from dashboards.figure import Column, Figure, FigureRow, Mark, Panel
from dashboards.templatetags.numbers import number
from headroom_edge.algorithms.base import Algorithm
from quotas.calibration.burst import Point
from quotas.calibration.sizing import is_sized, point_of
from quotas.models import Recommendation
from quotas.models.recommendation import Kind, Stage, Trust
from quotas.policies.allowance import allowance_of
from quotas.policies.limit_codec import algorithm_load
from quotas.policies.limit_words import Short, algorithm_words, limit_short
from quotas.recommendations.benefit import verb_of

MOST_BURST = 5  # times the larger of both limits' bursts, on the curve
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
    def denied_then(self) -> float | None:
        """Denied share from the replay that also gave the current share. The forecast may be of a busier week."""
        weeks: Sequence[Mapping[str, Any]] = self.row.evidence.get("weeks", ())
        units = sum(week["units"] for week in weeks)
        if not units:
            told: float | None = self.row.forecast.get("denied_share")
            return told
        return float(sum(week["denied_then"] for week in weeks) / units)

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
        f"{hours:g} h, counts but never denies",
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


def figures_of(card: Card) -> list[Figure]:
    """The figures that have data, in the order of the argument: rate, burst, backtest."""
    evidence = card.row.evidence
    return [figure for figure in (_demand(card, evidence), _curve(card, evidence), _weeks(evidence)) if figure.rows]


def _demand(card: Card, evidence: Mapping[str, Any]) -> Figure:
    bins: list[dict[str, Any]] = evidence.get("histogram", [])
    total = sum(one["units"] for one in bins) or 1
    rows = [
        FigureRow(i, [100 * one["units"] / total, one["minutes"], one["high"]], number(one["low"]))
        for i, one in enumerate(bins)
    ]
    percentiles = evidence.get("percentiles", {})
    named = ((f"p{100 * float(q):g}", rate) for q, rate in percentiles.items() if 0.5 <= float(q) < 1)
    said = ", ".join(f"{name} {number(rate)}/s" for name, rate in named)
    return Figure(
        "demand",
        "Demand",
        "share of load by 60 s rate, including denied requests",
        [Column("Load", "%", "bars", "1"), Column("Minutes", "", ""), Column("Up to", "per second", "")],
        rows,
        axis="category",
        x_name="60 s rate from, per second",
        panels=[Panel("% of load", 200)],
        marks=list(_marks(card, bins)),
        caption=f"{evidence['marker']}, whose demand sets the limit: {said}." if evidence.get("marker") else said,
    )


def _marks(card: Card, bins: Sequence[Mapping[str, Any]]) -> Iterator[Mark]:
    for name, size in (("now", card.size_now), ("new", card.size_then)):
        place = _along(size.rate, bins) if size else None
        if size is not None and place is not None:
            yield Mark("mark", f"{name} {number(size.rate)}/s", at=place)


def _along(rate: float, bins: Sequence[Mapping[str, Any]]) -> float | None:
    """The position of a rate on the category axis; bar i is centred on i."""
    if not bins or rate > bins[-1]["high"] or rate < bins[0]["low"]:
        return None
    for i, one in enumerate(bins):
        if rate <= one["high"]:
            low, high = max(one["low"], 1e-9), max(one["high"], 1e-9)
            inside = log(rate / low) / log(high / low) if high > low and rate > low else 0.5
            return i - 0.5 + min(max(inside, 0.0), 1.0)
    return None


def _curve(card: Card, evidence: Mapping[str, Any]) -> Figure:
    # Far below the limits the curve is so steep that it would flatten all the rest.
    most = MOST_BURST * max((size.burst for size in (card.size_now, card.size_then) if size), default=0)
    drawn = [one for one in evidence.get("curve", []) if not most or one["burst"] <= most]
    points = {round(one["rate"], 6): [one["burst"], None, None] for one in drawn}
    for place, size in ((1, card.size_then), (2, card.size_now)):
        if points and size is not None:
            points.setdefault(round(size.rate, 6), [None, None, None])[place] = size.burst
    rows = [FigureRow(rate, values) for rate, values in sorted(points.items())]
    columns = [Column("b(r)", "", "line", "brand"), Column("Proposed", "", "points", "allowed")]
    return Figure(
        "curve",
        "Burst by rate, b(r)",
        "smallest burst that admits all but 0.1 % of arrivals",
        [*columns, Column("Now", "", "points", "ref")],
        rows,
        axis="number",
        x_name="Rate, per second",
        panels=[Panel("burst", 200)],
        classes="c-6",
        caption="A limit above the curve admits the bursts; one below it denies some.",
    )


def _weeks(evidence: Mapping[str, Any]) -> Figure:
    rows = []
    for i, week in enumerate(evidence.get("weeks", [])):
        units = max(week["units"], 1)
        start = datetime.fromisoformat(week["start"])
        shares = [100 * week["denied_now"] / units, 100 * week["denied_then"] / units, week["units"]]
        rows.append(FigureRow(i, shares, f"{start:%-d %b}"))
    return Figure(
        "backtest",
        "Backtest by week",
        "recorded demand replayed with both limits",
        [
            Column("Current limit", "%", "line", "ref"),
            Column("Proposed", "%", "line", "brand"),
            Column("Requested", "units", ""),
        ],
        rows,
        axis="category",
        x_name="Week from",
        panels=[Panel("% denied", 200)],
        classes="c-6",
        caption="These weeks are the ones it was fitted on. The forecast is of days that it was not fitted on.",
    )
