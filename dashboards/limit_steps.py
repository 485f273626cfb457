"""A limit on a chart over time: a line over each time in which it had one value, and the burst above it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

from dashboards.figure import Mark, band, limit_line
from headroom_edge.algorithms.base import Algorithm
from headroom_edge.algorithms.sharing import Borrowing
from quotas.policies.allowance import Allowance, allowance_of, guaranteed_of
from quotas.policies.limit_history import LimitStep
from quotas.policies.limit_words import limit_short, most_short
from quotas.usage.queries.periods import Period

Held = tuple[datetime, datetime]
LIMIT: Final = "limit"


def step_marks(steps: Sequence[LimitStep], scale: float, period: Period, label: str = LIMIT) -> Iterator[Mark]:
    """`scale`: from units per second to what the chart is drawn in."""
    for step in steps:
        held = step.within(period.begin, period.end)
        if held is not None:
            yield from _guaranteed(step.algorithm, scale, held, label)
            yield from _most(step.algorithm, scale, period.step.total_seconds(), held, label)


def _guaranteed(algorithm: Algorithm, scale: float, held: Held, label: str) -> Iterator[Mark]:
    own = guaranteed_of(algorithm)
    if own is not None:
        yield limit_line(
            own.per_second * scale, f"{_named(label, 'guaranteed')} {limit_short(algorithm).main}", held=held
        )


def _most(algorithm: Algorithm, scale: float, step_s: float, held: Held, label: str) -> Iterator[Mark]:
    allowance = allowance_of(algorithm)
    if allowance is None:
        return
    short, value = most_short(algorithm), allowance.per_second * scale
    top = allowance.most_in(step_s) / step_s * scale
    # With long steps, the burst adds less than the width of the line.
    if allowance.burst and top > 1.02 * value:
        yield band(value, top, f"with full {short.rest}", held=held)
    told = _named(label, "ceiling") if isinstance(algorithm, Borrowing) else label
    yield limit_line(value, f"{told} {short.main}", held=held)


def _named(label: str, what: str) -> str:
    return what if label == LIMIT else f"{label}, {what}"


def held_at(steps: Sequence[LimitStep], at: datetime, scale: float) -> float | None:
    """For the table; None: not known."""
    return _value(allowance_of, steps, at, scale)


def guaranteed_at(steps: Sequence[LimitStep], at: datetime, scale: float) -> float | None:
    """Likewise."""
    return _value(guaranteed_of, steps, at, scale)


def _value(
    of: Callable[[Algorithm], Allowance | None], steps: Sequence[LimitStep], at: datetime, scale: float
) -> float | None:
    held = next((step for step in steps if step.holds_at(at)), None)
    allowance = of(held.algorithm) if held else None
    return allowance.per_second * scale if allowance else None


def changed_within(steps: Sequence[LimitStep], period: Period) -> list[datetime]:
    """When the limit got another value."""
    return [step.since for step in steps[1:] if period.begin <= step.since < period.end]
