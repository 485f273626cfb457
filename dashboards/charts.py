"""Charts as numbers: paths and ticks that a template puts into SVG.

Positions are percentages and paths live in a box of 1000 × 1000 that is stretched to fit, so a chart has
the width of its card and its text never scales.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

BOX = 1000
MOST_STEPS = 48  # of a line without axes
ROUND = (1, 2, 3, 4, 5, 6, 8)
LEAST = 0.01  # what is not nothing is never written as 0
SMALLEST_POWER = -2  # a tick is written with two digits


@dataclass(frozen=True, slots=True)
class Tick:
    at: str  # percent
    label: str
    anchor: str = "middle"
    minor: bool = False  # left out where there is little room


@dataclass(frozen=True, slots=True)
class Panel:
    line: str
    area: str


def spark(values: Sequence[float | None]) -> Panel:
    """A line in steps over equal times; None is unknown and breaks it; flat at the bottom if there was nothing."""
    shown = _thinned(values)
    return Panel(*_paths(shown, _largest(shown) * 1.08 or 1))


def _thinned(values: Sequence[float | None]) -> Sequence[float | None]:
    """Means of neighbours, where there are more than a few pixels have room for."""
    each = -(-len(values) // MOST_STEPS)
    if each <= 1:
        return values
    parts = (values[i : i + each] for i in range(0, len(values), each))
    known = ([value for value in part if value is not None] for part in parts)
    return [sum(part) / len(part) if part else None for part in known]


def _largest(values: Sequence[float | None]) -> float:
    return max((value for value in values if value is not None), default=0)


def nice_top(largest: float, divisions: int) -> float:
    """The least number from `largest` up whose equal parts are one digit times a power of ten."""
    part = largest / divisions or 1
    steps = (n * 10.0**power for power in range(SMALLEST_POWER, 18) for n in ROUND)
    return next(step for step in steps if step >= part) * divisions


def _paths(values: Sequence[float | None], top: float) -> tuple[str, str]:
    """The line, and the area under it, in one stretch for each run of known values."""
    lines, areas = [], []
    for first, run in _runs(values):
        lines.append(_line(first, run, len(values), top))
        areas.append(f"{lines[-1]}V{BOX}H{BOX * first / len(values):.1f}Z")
    return "".join(lines), "".join(areas)


def _runs(values: Sequence[float | None]) -> Iterator[tuple[int, list[float]]]:
    """Stretches of known values, each with the place of its first."""
    for known, group in groupby(enumerate(values), key=lambda pair: pair[1] is not None):
        if known:
            pairs = [(i, value) for i, value in group if value is not None]
            yield pairs[0][0], [value for _, value in pairs]


def _line(first: int, run: Sequence[float], steps: int, top: float) -> str:
    heights = [f"{BOX * (1 - value / top):.1f}" for value in run]
    path = "".join(f"V{y}H{BOX * (first + i + 1) / steps:.1f}" for i, y in enumerate(heights))
    return f"M{BOX * first / steps:.1f} {heights[0]}{path}"


def number(value: float) -> str:
    """As many digits as a reader needs."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    if 0 < value < LEAST:
        return f"<\N{NO-BREAK SPACE}{LEAST}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
