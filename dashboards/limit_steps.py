"""A limit on a chart over time: a line over each time in which it had one value, and the burst above it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from dashboards.figure import Mark, band, limit_line
from quotas.policies.allowance import allowance_of
from quotas.policies.limit_history import LimitStep
from quotas.policies.limit_words import most_short
from quotas.usage.queries.periods import Period


def step_marks(steps: Sequence[LimitStep], scale: float, period: Period, label: str = "limit") -> Iterator[Mark]:
    """`scale`: from units per second to what the chart is drawn in."""
    for step in steps:
        held, allowance = step.within(period.begin, period.end), allowance_of(step.algorithm)
        if held is None or allowance is None:
            continue
        short, value = most_short(step.algorithm), allowance.per_second * scale
        step_s = period.step.total_seconds()
        top = allowance.most_in(step_s) / step_s * scale
        # With long steps, the burst adds less than the width of the line.
        if allowance.burst and top > 1.02 * value:
            yield band(value, top, f"with full {short.rest}", held=held)
        yield limit_line(value, f"{label} {short.main}", held=held)


def held_at(steps: Sequence[LimitStep], at: datetime, scale: float) -> float | None:
    """For the table; None: not known."""
    held = next((step for step in steps if step.holds_at(at)), None)
    allowance = allowance_of(held.algorithm) if held else None
    return allowance.per_second * scale if allowance else None


def changed_within(steps: Sequence[LimitStep], period: Period) -> list[datetime]:
    """When the limit got another value."""
    return [step.since for step in steps[1:] if period.begin <= step.since < period.end]
