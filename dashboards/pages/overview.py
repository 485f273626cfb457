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

from dashboards import charts
from quotas.selectors.usage import SPANS, Point, TenantUsage, Usage, usage_read

log = logging.getLogger(__name__)

LATE = timedelta(seconds=30)  # a drain runs every few seconds
SHORTEST_S = 1.0  # less of a step says nothing of its rate


@dataclass(frozen=True, slots=True)
class Axis:
    every: timedelta
    form: str  # of a tick
    moment: str  # of a row in the table
    step: str  # in words


AXES = {
    "15m": Axis(timedelta(minutes=3), "%H:%M", "%H:%M:%S", "10 s"),
    "1h": Axis(timedelta(minutes=10), "%H:%M", "%H:%M", "1 min"),
    "24h": Axis(timedelta(hours=3), "%H:%M", "%d %b %H:%M", "1 h"),
    "14d": Axis(timedelta(days=2), "%d %b", "%d %b %Y", "1 day"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One step: requests a second, None where that is not known."""

    when: str
    allowed: float | None
    denied: float | None


@dataclass(frozen=True, slots=True)
class TenantRow:
    usage: TenantUsage
    spark: charts.Panel

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
    axis, points = AXES[usage.span.key], usage.points
    allowed = [_rate(point.counts.allowed, point) for point in points]
    denied = [_rate(point.counts.denied, point) for point in points]
    whens = [f"{point.start:{axis.moment}}" for point in points]
    age = now - usage.drained_at if usage.drained_at else None
    gaps = [(gap.start, gap.end, gap.reason) for gap in usage.gaps]
    return {
        "axis": axis,
        "rows": [Row(*facts) for facts in zip(whens, allowed, denied, strict=True)][::-1],
        "allowed": charts.panel(allowed, 4),
        "denied": charts.panel(denied, 2),
        "asked_spark": charts.spark([_rate(point.counts.asked, point) for point in points]),
        "denied_spark": charts.spark(denied),
        "times": charts.time_ticks(usage.begin, usage.end, axis.every, axis.form),
        "gaps": charts.bands(gaps, usage.begin, usage.end),
        "tenants": [TenantRow(tenant, _spark(tenant, points)) for tenant in usage.tenants],
        "mean_rate": usage.total.asked / max(usage.measured_seconds, 1),
        "age": age,
        "late": age is not None and age > LATE,
    }


def _rate(requests: int, point: Point) -> float | None:
    return requests / point.seconds if point.seconds >= SHORTEST_S else None


def _spark(tenant: TenantUsage, points: Sequence[Point]) -> charts.Panel:
    """What is worth a look: the denials if there are any, otherwise what was asked."""
    counts = [each.denied if tenant.counts.denied else each.asked for each in tenant.series]
    return charts.spark([_rate(count, point) for count, point in zip(counts, points, strict=True)])
