"""Requests of all tenants on an endpoint over time, the limits for everyone there, and whom its limits deny."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from dashboards.figure import Column, Figure, FigureRow, Mark, Panel, annotation_flag, gap
from dashboards.limit_steps import held_at, step_marks
from dashboards.pages.endpoint.limit_line import RateUnit
from headroom_edge.plan.subject import Subject
from quotas.calibration.sizing import is_sized
from quotas.models import Endpoint
from quotas.policies.limit_history import LimitStep, limit_steps, limits_for_everyone
from quotas.policies.limit_words import limit_short
from quotas.usage.queries.annotations import annotations_read
from quotas.usage.queries.denial_causes import throttled_read
from quotas.usage.queries.periods import SPANS, Period
from quotas.usage.queries.traffic import TrafficPoint, traffic_read

MOST_THROTTLED = 3
WORTH_A_LOOK = 0.01  # fewer denials than this share are normal for a limit


@dataclass(frozen=True, slots=True)
class DrawnLimit:
    """A limit for everyone, in requests of the usual cost."""

    label: str
    now: str  # its present value
    steps: Sequence[LimitStep]
    each: float  # how much of it a request takes


def traffic_shown(endpoint: Endpoint, period: Period, unit: RateUnit) -> dict[str, Any]:
    throttled = throttled_read(period, endpoint=endpoint.number, most=MOST_THROTTLED)
    return {
        "period": period,
        "spans": SPANS,
        "span": period.span,
        "traffic": traffic_figure(endpoint, period, unit),
        "throttled": [row for row in throttled if row.tenant and row.share >= WORTH_A_LOOK],
    }


def traffic_figure(endpoint: Endpoint, period: Period, unit: RateUnit) -> Figure:
    found = traffic_read(period, endpoints=[endpoint.number])
    limits = drawn_limits(endpoint)
    rows = [
        FigureRow(moment.start, [*_values(moment, unit), *_held(limits, moment, unit)])
        for moment in reversed(found.moments)
    ]
    return Figure(
        id="traffic",
        title="Requests by outcome",
        note=f"all tenants, {period.step_words} averages",
        columns=(
            Column("Allowed", unit.label, "area", "allowed"),
            Column("Denied", unit.label, "area", "denied", panel=1),
            Column("Would be denied (shadow)", unit.label, "dash", "shadow", panel=1),
            *(Column(limit.label, unit.label, "") for limit in limits),
        ),
        rows=rows,
        panels=(Panel(unit.label, 140), Panel(f"denied, {unit.label}", 72)),
        marks=[
            *(gap(each.start, each.end, each.words) for each in found.gaps),
            *(mark for limit in limits for mark in _marks(limit, period, unit)),
            *map(annotation_flag, annotations_read(period)),
        ],
        legend=[Mark("limit", f"{limit.label}, now {limit.now}") for limit in limits],
        zooms=True,
        notes=reverse("dashboards:chart-notes"),
        start=period.begin.timestamp(),
        end=period.end.timestamp(),
    )


def drawn_limits(endpoint: Endpoint) -> list[DrawnLimit]:
    """Enforced limits on the rate of all tenants together, on this endpoint or on its whole service."""
    return [
        DrawnLimit(
            f"Global limit {limit.name}" if scope == endpoint.name else f"Limit {limit.name} of all of {scope}",
            limit_short(limit.algorithm).main,
            limit_steps(limit),
            endpoint.default_cost if limit.unit == "cost" else 1,
        )
        for scope, limit in limits_for_everyone(endpoint.name)
        if limit.mode == "enforce" and limit.subject == Subject() and is_sized(limit.algorithm)
    ]


def _marks(limit: DrawnLimit, period: Period, unit: RateUnit) -> list[Mark]:
    return list(step_marks(limit.steps, unit.window_s / limit.each, period, limit.label.lower()))


def _values(moment: TrafficPoint, unit: RateUnit) -> list[float | None]:
    rates = (moment.rate(count) for count in (moment.allowed, moment.denied, moment.shadow))
    return [None if rate is None else unit.of(rate) for rate in rates]


def _held(limits: Sequence[DrawnLimit], moment: TrafficPoint, unit: RateUnit) -> list[float | None]:
    return [held_at(limit.steps, moment.start, unit.window_s / limit.each) for limit in limits]
