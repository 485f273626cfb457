"""Requests of all tenants on an endpoint over time, and whom its limits deny."""

from __future__ import annotations

from typing import Any

from dashboards.figure import Column, Figure, FigureRow, Panel, annotation_flag, gap
from quotas.models import Endpoint
from quotas.usage.queries.annotations import annotations_read
from quotas.usage.queries.denial_causes import throttled_read
from quotas.usage.queries.periods import SPANS, Period
from quotas.usage.queries.traffic import traffic_read

MOST_THROTTLED = 3
WORTH_A_LOOK = 0.01  # fewer denials than this share are normal for a limit


def traffic_shown(endpoint: Endpoint, period: Period) -> dict[str, Any]:
    throttled = throttled_read(period, endpoint=endpoint.number, most=MOST_THROTTLED)
    return {
        "period": period,
        "spans": SPANS,
        "span": period.span,
        "traffic": traffic_figure(endpoint, period),
        "throttled": [row for row in throttled if row.tenant and row.share >= WORTH_A_LOOK],
    }


def traffic_figure(endpoint: Endpoint, period: Period) -> Figure:
    found = traffic_read(period, endpoints=[endpoint.number])
    rows = [
        FigureRow(moment.start, [moment.rate(moment.allowed), moment.rate(moment.denied), moment.rate(moment.shadow)])
        for moment in reversed(found.moments)
    ]
    return Figure(
        id="traffic",
        title="Requests by outcome",
        note=f"all tenants, {period.step_words} averages",
        columns=(
            Column("Allowed", "req/s", "area", "allowed"),
            Column("Denied", "req/s", "area", "denied", panel=1),
            Column("Would be denied (shadow)", "req/s", "dash", "shadow", panel=1),
        ),
        rows=rows,
        panels=(Panel("req/s", 140), Panel("denied, req/s", 72)),
        marks=[
            *(gap(each.start, each.end, each.reason) for each in found.gaps),
            *map(annotation_flag, annotations_read(period)),
        ],
        zooms=True,
        start=period.begin.timestamp(),
        end=period.end.timestamp(),
    )
