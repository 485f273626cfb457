"""The first page: what was asked, what was allowed, and who was denied."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboards.figure import Column, Figure, Panel, Row, gap
from quotas.selectors.usage import SPANS, Point, TenantUsage, Usage, usage_read

log = logging.getLogger(__name__)

LATE = timedelta(seconds=30)  # a drain runs every few seconds
SHORTEST_S = 1.0  # less of a step says nothing of its rate


STEPS = {"15m": "10 s", "1h": "1 min", "24h": "1 h", "14d": "1 day"}


@dataclass(frozen=True, slots=True)
class TenantRow:
    usage: TenantUsage
    spark: Sequence[float | None]

    @property
    def classes(self) -> str:
        return "spark-cell s-denied" if self.usage.counts.denied else "spark-cell s-allowed"


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    span = SPANS.get(request.GET.get("span", "15m"))
    if span is None:
        return HttpResponseBadRequest(f"span must be one of {', '.join(SPANS)}.", content_type="text/plain")
    now = timezone.now()
    try:
        usage = usage_read(span, now)
    except OperationalError as error:
        log.warning("the overview cannot be read: %s", error)
        return render(request, "dashboards/unavailable.html", status=503)
    return render(
        request, "dashboards/overview.html", {"usage": usage, "spans": SPANS.values(), **_figures(usage, now)}
    )


def _figures(usage: Usage, now: datetime) -> dict[str, object]:
    points = usage.points
    age = now - usage.drained_at if usage.drained_at else None
    return {
        "traffic": _traffic(usage),
        "asked_spark": [_rate(point.counts.asked, point) for point in points],
        "denied_spark": [_rate(point.counts.denied, point) for point in points],
        "tenants": [TenantRow(tenant, _spark(tenant, points)) for tenant in usage.tenants],
        "mean_rate": usage.total.asked / max(usage.measured_seconds, 1),
        "age": age,
        "late": age is not None and age > LATE,
    }


def _traffic(usage: Usage) -> Figure:
    rows = [
        Row(point.start, [_rate(point.counts.allowed, point), _rate(point.counts.denied, point)])
        for point in reversed(usage.points)
    ]
    return Figure(
        id="traffic",
        title="Requests by outcome",
        note=f"averages over {STEPS[usage.span.key]}",
        columns=(
            Column("Let through", "req/s", "area", "allowed"),
            Column("Denied", "req/s", "area", "denied", panel=1),
        ),
        rows=rows,
        panels=(Panel("req/s", 200), Panel("denied, req/s", 72)),
        marks=[gap(each.start, each.end, each.reason) for each in usage.gaps],
        caption=_known(usage),
        start=usage.begin.timestamp(),
        end=usage.end.timestamp(),
    )


def _known(usage: Usage) -> str:
    if not usage.gaps:
        return f"No gap in the last {usage.span.words}: every decision of Redis is in these figures."
    said = [
        f"No data before {each.end:%-d %b %H:%M:%S} UTC."
        if each.before_all
        else f"Counts may be missing from {each.start:%-d %b %H:%M:%S} to {each.end:%H:%M:%S} UTC: {each.reason}"
        for each in usage.gaps[:3]
    ]
    more = len(usage.gaps) - len(said)
    return " ".join([*said, *([f"And {more} more."] if more > 0 else [])])


def _rate(requests: int, point: Point) -> float | None:
    return requests / point.seconds if point.seconds >= SHORTEST_S else None


def _spark(tenant: TenantUsage, points: Sequence[Point]) -> list[float | None]:
    """What is worth a look: the denials if there are any, otherwise what was asked."""
    counts = [each.denied if tenant.counts.denied else each.asked for each in tenant.series]
    return [_rate(count, point) for count, point in zip(counts, points, strict=True)]
