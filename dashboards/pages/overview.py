"""The first page: what was asked, what was allowed, and who was denied."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboards import charts
from quotas.selectors.usage import SPANS, Point, TenantUsage, Usage, usage_read

LATE = timedelta(seconds=30)  # a drain runs every few seconds


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
    when: str
    allowed: float | None  # a second; None: not known
    denied: float | None


@dataclass(frozen=True, slots=True)
class TenantRow:
    usage: TenantUsage
    spark: charts.Panel


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    span = SPANS.get(request.GET.get("span", "15m"))
    if span is None:
        return HttpResponseBadRequest(f"span must be one of {', '.join(SPANS)}.", content_type="text/plain")
    now = timezone.now()
    usage = usage_read(span, now)
    return render(
        request, "dashboards/overview.html", {"usage": usage, "spans": SPANS.values(), **_figures(usage, now)}
    )


def _figures(usage: Usage, now: datetime) -> dict[str, object]:
    axis = AXES[usage.span.key]
    rows = [_row(point, axis) for point in usage.points]
    age = now - usage.drained_at if usage.drained_at else None
    gaps = [(gap.start, gap.end, gap.reason) for gap in usage.gaps]
    return {
        "axis": axis,
        "rows": rows[::-1],
        "allowed": charts.panel([row.allowed for row in rows], 4),
        "denied": charts.panel([row.denied for row in rows], 2),
        "asked_spark": charts.spark([point.counts.asked for point in usage.points]),
        "denied_spark": charts.spark([point.counts.denied for point in usage.points]),
        "times": charts.time_ticks(usage.begin, usage.end, axis.every, axis.form),
        "gaps": charts.bands(gaps, usage.begin, usage.end),
        "tenants": [TenantRow(tenant, _spark(tenant)) for tenant in usage.tenants],
        "mean_rate": usage.total.asked / max(usage.measured_seconds, 1),
        "age": age,
        "late": age is not None and age > LATE,
    }


def _row(point: Point, axis: Axis) -> Row:
    when = f"{point.start:{axis.moment}}"
    if point.seconds < 1:
        return Row(when, None, None)
    return Row(when, point.counts.allowed / point.seconds, point.counts.denied / point.seconds)


def _spark(tenant: TenantUsage) -> charts.Panel:
    """What is worth a look: the denials if there are any, otherwise what was asked."""
    return charts.spark([each.denied if tenant.counts.denied else each.asked for each in tenant.series])
