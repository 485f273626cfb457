"""The figures of a change's page: live against candidate, and a canary beside the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dashboards.figure import Column, Figure, FigureRow, Mark, Panel, flag, gap
from quotas.models.usage import GapRecord
from quotas.policies.compare import long_run_rate
from quotas.policies.limit_codec import algorithm_load, stored_of_fields
from quotas.policies.limit_words import limit_short
from quotas.trials.canary import CanaryCounts, CanaryPoint
from quotas.trials.counts import Point, TrialCounts
from quotas.trials.scope import TrialScope
from quotas.usage.queries.periods import Period

MINUTE_S = 60
SLOW = 2.0  # per second; a limit below it is shown per minute


@dataclass(frozen=True, slots=True)
class LimitLine:
    """A limit as a height in the chart."""

    rate: float  # units per second
    words: str


def line_of(fields: dict[str, Any] | None) -> LimitLine | None:
    """None: nothing that one tenant's requests per second can be compared with."""
    if fields is None or fields["unit"] != "requests" or fields["subject"] != "tenant":
        return None
    algorithm = algorithm_load(stored_of_fields(fields))
    rate = long_run_rate(algorithm)
    return None if rate is None else LimitLine(float(rate), str(limit_short(algorithm)))


def trial_figure(scope: TrialScope, counts: TrialCounts, period: Period, points: Sequence[Point]) -> Figure:
    only = scope.limits[0] if len(scope.limits) == 1 else None
    live, wanted = (line_of(only.live), line_of(only.wanted)) if only else (None, None)
    lines = [line.rate for line in (live, wanted) if line]
    per_minute = bool(lines) and max(lines) < SLOW
    scale, unit = (MINUTE_S, "req/min") if per_minute else (1, "req/s")
    window = "minute" if per_minute else "second"
    marks = [_limit(live, scale, "live limit", "brand"), _limit(wanted, scale, "candidate", "shadow")]
    rows = [
        FigureRow(
            point.start,
            [
                point.peak_60s if per_minute else point.peak_1s,
                scale * live.rate if live else None,
                scale * wanted.rate if wanted else None,
                point.would_deny,
                point.denied,
                point.asked,
            ],
        )
        for point in points
        if point.start < counts.until
    ]
    return Figure(
        id="live-and-candidate",
        title="Live and candidate",
        note=f"{period.step_words} steps; the rate is the highest {window} of one tenant in the hour",
        columns=(
            Column("Highest rate of a tenant", unit, "step", "allowed"),
            Column("Live limit", unit, "line" if live else "", "brand"),
            Column("Candidate", unit, "dash" if wanted else "", "shadow"),
            Column("Would-be 429s", "", "bars", "shadow", panel=1),
            Column("Live 429s", "", "", "denied", panel=1),
            Column("Requests", "", "", "allowed", panel=1),
        ),
        rows=rows[::-1],
        panels=(Panel(unit, 200), Panel(f"would-be 429s per {period.step_words}", 96)),
        marks=[*(mark for mark in marks if mark), *_gaps(counts.gaps)],
        caption=_caption(counts, points),
        start=period.begin.timestamp(),
        end=period.end.timestamp(),
    )


def _limit(line: LimitLine | None, scale: float, name: str, color: str) -> Mark | None:
    return Mark("limit", f"{name} {line.words}", at=scale * line.rate, color=color) if line else None


def _gaps(gaps: Sequence[GapRecord]) -> list[Mark]:
    return [gap(each.start, each.end, each.reason) for each in gaps if not each.before_all]


def _caption(counts: TrialCounts, points: Sequence[Point]) -> str:
    hit = [point.start for point in points if point.would_deny]
    live = f"The live limits denied {counts.total.denied:,} in this time." if counts.total.denied else ""
    if not hit:
        return f"No request that was allowed would be denied. {live}".strip()
    if len(points) < 2:
        return live
    step = points[1].start - points[0].start
    between = f"{hit[0]:%-d %b %H:%M} and {hit[-1] + step:%-d %b %H:%M} UTC"
    return f"All would-be 429s fall between {between}. {live}".strip()


def canary_figure(counts: CanaryCounts, period: Period, points: Sequence[CanaryPoint]) -> Figure:
    rows = [
        FigureRow(point.start, [_percent(point.canary), _percent(point.rest)])
        for point in points
        if point.start < counts.until
    ]
    return Figure(
        id="canary-and-rest",
        title="429 share, canary and rest",
        note=f"{period.step_words} steps",
        columns=(Column("Canary", "%", "area", "denied"), Column("Rest", "%", "dash", "ref")),
        rows=rows[::-1],
        panels=(Panel("% denied", 200),),
        marks=[flag(counts.begin, "canary started"), *_gaps(counts.gaps)],
        start=period.begin.timestamp(),
        end=period.end.timestamp(),
    )


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
