"""Numbers for SVG that templates write: spark lines, axis ticks and round axis tops.

Positions are percentages, and paths use a 1000 × 1000 box that is stretched to fit. So a picture is as wide as its
card, and its text never scales.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

BOX = 1000
MOST_STEPS = 48  # in a spark line
ROUND = (1, 2, 3, 4, 5, 6, 8)
SMALLEST_POWER = -2  # tick labels have at most two decimals


@dataclass(frozen=True, slots=True)
class Tick:
    at: str  # percent
    label: str
    anchor: str = "middle"
    minor: bool = False  # hidden on narrow screens


@dataclass(frozen=True, slots=True)
class SparkPaths:
    line: str
    area: str


def spark(values: Sequence[float | None]) -> SparkPaths:
    """A step line over equal intervals. None is unknown and breaks the line; zeros lie flat at the bottom."""
    shown = _thinned(values)
    return SparkPaths(*_paths(shown, _largest(shown) * 1.08 or 1))


def _thinned(values: Sequence[float | None]) -> Sequence[float | None]:
    """At most MOST_STEPS values, each the mean of its neighbours."""
    each = -(-len(values) // MOST_STEPS)
    if each <= 1:
        return values
    parts = (values[i : i + each] for i in range(0, len(values), each))
    known = ([value for value in part if value is not None] for part in parts)
    return [sum(part) / len(part) if part else None for part in known]


def _largest(values: Sequence[float | None]) -> float:
    return max((value for value in values if value is not None), default=0)


def nice_top(largest: float, divisions: int) -> float:
    """The smallest axis top ≥ `largest` whose equal divisions are one digit times a power of ten."""
    part = largest / divisions or 1
    steps = (n * 10.0**power for power in range(SMALLEST_POWER, 18) for n in ROUND)
    return next(step for step in steps if step >= part) * divisions


def _paths(values: Sequence[float | None], top: float) -> tuple[str, str]:
    """The line and the area under it, one stretch for each run of known values."""
    lines, areas = [], []
    for first, run in _runs(values):
        lines.append(_line(first, run, len(values), top))
        areas.append(f"{lines[-1]}V{BOX}H{BOX * first / len(values):.1f}Z")
    return "".join(lines), "".join(areas)


def _runs(values: Sequence[float | None]) -> Iterator[tuple[int, list[float]]]:
    """Runs of known values, each with the index of its first value."""
    for known, group in groupby(enumerate(values), key=lambda pair: pair[1] is not None):
        if known:
            pairs = [(i, value) for i, value in group if value is not None]
            yield pairs[0][0], [value for _, value in pairs]


def _line(first: int, run: Sequence[float], steps: int, top: float) -> str:
    heights = [f"{BOX * (1 - value / top):.1f}" for value in run]
    path = "".join(f"V{y}H{BOX * (first + i + 1) / steps:.1f}" for i, y in enumerate(heights))
    return f"M{BOX * first / steps:.1f} {heights[0]}{path}"
