"""The figures of a change's page: live against candidate, and a canary beside the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dashboards.figure import Column, Figure, FigureRow, Mark, Panel, flag, gap
from dashboards.pages.endpoint.limit_line import RateUnit
from quotas.calibration.sizing import is_sized
from quotas.models.usage import GapRecord
from quotas.policies.allowance import Allowance, allowance_of
from quotas.policies.limit_codec import algorithm_load, stored_of_fields
from quotas.policies.limit_words import limit_short
from quotas.trials.canary import CanaryCounts, CanaryPoint
from quotas.trials.counts import Point, TrialCounts
from quotas.trials.scope import TrialScope
from quotas.usage.queries.periods import Period

MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class LimitLine:
    """A limit as a height in the chart."""

    allowance: Allowance
    words: str

    def at(self, unit: RateUnit) -> float:
        return unit.of(self.allowance.per_second)


def line_of(fields: dict[str, Any] | None) -> LimitLine | None:
    """None: nothing that the rate of one tenant's requests can be compared with."""
    if fields is None or fields["unit"] != "requests" or fields["subject"] != "tenant":
        return None
    algorithm = algorithm_load(stored_of_fields(fields))
    allowance = allowance_of(algorithm) if is_sized(algorithm) else None
    return LimitLine(allowance, str(limit_short(algorithm))) if allowance else None


def trial_figure(scope: TrialScope, counts: TrialCounts, period: Period, points: Sequence[Point]) -> Figure:
    only = scope.limits[0] if len(scope.limits) == 1 else None
    live, wanted = (line_of(only.live), line_of(only.wanted)) if only else (None, None)
    line = wanted or live
    unit = RateUnit(line.allowance.window_s, line.allowance.window_words) if line else RateUnit()
    # A burst is meant to be used, so the demand is taken over a minute, as everywhere else.
    over_s = max(unit.window_s, MINUTE_S) if line and line.allowance.burst else unit.window_s
    marks = [_limit(live, unit, "live limit", "brand"), _limit(wanted, unit, "candidate", "shadow")]
    rows = [
        FigureRow(
            point.start,
            [
                unit.of(point.peaks.peak(over_s) / over_s) if point.peaks else None,
                live.at(unit) if live else None,
                wanted.at(unit) if wanted else None,
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
        note=f"{period.step_words} steps; the rate is of the busiest {over_s:g} s of one tenant in the hour",
        columns=(
            Column("Highest rate of a tenant", unit.label, "step", "allowed"),
            Column("Live limit", unit.label, "line" if live else "", "brand"),
            Column("Candidate", unit.label, "dash" if wanted else "", "shadow"),
            Column("Would-be 429s", "", "bars", "shadow", panel=1),
            Column("Live 429s", "", "", "denied", panel=1),
            Column("Requests", "", "", "allowed", panel=1),
        ),
        rows=rows[::-1],
        panels=(Panel(unit.label, 200), Panel(f"would-be 429s per {period.step_words}", 96)),
        marks=[*(mark for mark in marks if mark), *_gaps(counts.gaps)],
        caption=_caption(counts, points),
        start=period.begin.timestamp(),
        end=period.end.timestamp(),
    )


def _limit(line: LimitLine | None, unit: RateUnit, name: str, color: str) -> Mark | None:
    return Mark("limit", f"{name} {line.words}", at=line.at(unit), color=color) if line else None


def _gaps(gaps: Sequence[GapRecord]) -> list[Mark]:
    return [gap(each.start, each.end, each.words) for each in gaps if not each.before_all]


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
