"""The overview: traffic by outcome, most throttled tenants, causes of 429s, and open decisions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboards.figure import Column, Figure, FigureRow, Mark, Panel, annotation_flag, gap
from dashboards.forms import PeriodError, bad_request, period_of
from dashboards.pages.changes.summary import RevisionRow, revision_rows
from dashboards.pages.emergencies import emergencies_shown
from dashboards.pages.overview.todo import todo_of
from quotas.changes.queries import aftermaths_read
from quotas.models import Revision
from quotas.status.summary import StatusSummary, status_summary_read
from quotas.status.system import enforcement_read
from quotas.status.todo import todo_read
from quotas.usage.queries.annotations import Annotation, annotations_read
from quotas.usage.queries.denial_causes import (
    causes_read,
    revision_spans,
    revisions_within,
    throttled_read,
)
from quotas.usage.queries.near_limits import near_limits_read
from quotas.usage.queries.periods import SPANS, Period
from quotas.usage.queries.traffic import Traffic, traffic_read

log = logging.getLogger(__name__)

LATE = timedelta(seconds=30)  # the drain runs every few seconds
LATEST = 6
MOST_EMERGENCIES = 2


@dataclass(frozen=True, slots=True)
class Delta:
    """Compared with the same time a week ago."""

    asked: float  # relative
    share: float  # percentage points


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    try:
        period = period_of(request, now)
        return _page(request, period, now)
    except PeriodError as error:
        return bad_request(request, error)
    except OperationalError as error:
        log.warning("cannot read the overview: %s", error)
        return render(request, "dashboards/unavailable.html", status=503)


def _page(request: HttpRequest, period: Period, now: datetime) -> HttpResponse:
    pulse = status_summary_read()
    if pulse.is_empty:
        return redirect("dashboards:first-run")
    traffic = traffic_read(period)
    compares = request.GET.get("compare", "1") != "0"
    week = traffic_read(period.a_week_earlier(now)) if compares else None
    revisions = revisions_within(period)
    enforcement = enforcement_read()
    throttled = throttled_read(period)
    decisions = todo_read(now)
    return render(
        request,
        "dashboards/overview/page.html",
        {
            "traffic": traffic,
            "figure": traffic_figure(traffic, week, annotations_read(period)),
            "delta": _delta(traffic, week) if week else None,
            "compares": compares,
            "spans": SPANS,
            "span": period.span,
            "period": period,
            "causes": causes_read(period),
            "reigns": revision_spans(traffic, revisions, _held_before(revisions, pulse))[::-1],
            "throttled": throttled,
            "enforcement": enforcement,
            # One more than are shown tells that there are more.
            "emergencies": emergencies_shown(request, MOST_EMERGENCIES + 1),
            "most_emergencies": MOST_EMERGENCIES,
            "near": near_limits_read(),
            "all_tenants": pulse.tenants,
            "pulse": pulse,
            "decisions": decisions,
            "todo": todo_of(decisions, throttled, enforcement),
            "latest": _latest(pulse),
            "asked_spark": [moment.rate(moment.asked) for moment in traffic.moments],
            "denied_spark": [moment.denied_share for moment in traffic.moments],
            **_freshness(traffic, now),
        },
    )


def _freshness(traffic: Traffic, now: datetime) -> dict[str, object]:
    age = now - traffic.drained_at if traffic.drained_at else None
    return {"age": age, "late": age is not None and age > LATE}


def _delta(traffic: Traffic, week: Traffic) -> Delta | None:
    if not week.asked or not week.seconds or not traffic.seconds:
        return None
    then, now = week.asked / week.seconds, traffic.asked / traffic.seconds
    return Delta(now / then - 1, 100 * (traffic.denied_share - week.denied_share))


def _held_before(revisions: Sequence[Revision], pulse: StatusSummary) -> int:
    return revisions[0].number - 1 if revisions else pulse.revision


def _latest(pulse: StatusSummary) -> list[RevisionRow]:
    rows = list(Revision.objects.order_by("-number")[:LATEST])
    return revision_rows(rows, aftermaths_read(rows, pulse.drained_at))


def traffic_figure(traffic: Traffic, week: Traffic | None, annotations: Sequence[Annotation]) -> Figure:
    earlier = _aligned(traffic, week) if week else []
    columns = [
        Column("Allowed", "req/s", "area", "allowed"),
        *([Column("Last week", "req/s", "dash", "ref")] if week else []),
        Column("Denied", "req/s", "area", "denied", panel=1),
        Column("Would be denied (shadow)", "req/s", "dash", "shadow", panel=1),
    ]
    rows = [
        FigureRow(
            moment.start,
            [
                moment.rate(moment.allowed),
                *([earlier[i]] if week else []),
                moment.rate(moment.denied),
                moment.rate(moment.shadow),
            ],
        )
        for i, moment in enumerate(traffic.moments)
    ]
    return Figure(
        id="traffic",
        title="Requests by outcome",
        note=f"{traffic.period.step_words} averages",
        columns=columns,
        rows=rows[::-1],
        panels=(Panel("req/s", 200), Panel("denied, req/s", 96)),
        marks=[*_gaps(traffic), *map(annotation_flag, annotations)],
        legend=[Mark("mark", "Revision, bypass, failover or note")] if annotations else (),
        notes=reverse("dashboards:chart-notes"),
        caption=known_words(traffic),
        zooms=True,
        start=traffic.period.begin.timestamp(),
        end=traffic.period.end.timestamp(),
    )


def _gaps(traffic: Traffic) -> list[Mark]:
    return [gap(each.start, each.end, each.words) for each in traffic.gaps]


def _aligned(traffic: Traffic, week: Traffic) -> list[float | None]:
    """Last week's rate at each point of this week. Last week may have a coarser step."""
    step = week.period.step
    rates = {moment.start: moment.rate(moment.allowed) for moment in week.moments}
    shift = traffic.period.begin - week.period.begin
    return [
        rates.get(week.period.begin + (moment.start - shift - week.period.begin) // step * step)
        for moment in traffic.moments
    ]


def known_words(traffic: Traffic) -> str:
    """The caption: which data is missing, if any."""
    if not traffic.gaps:
        return "Complete: every decision in this period is included."
    said = [
        f"No data before {each.end:%-d %b %H:%M:%S} UTC."
        if each.before_all
        else f"Counts may be missing from {each.start:%-d %b %H:%M:%S} to {each.end:%H:%M:%S} UTC: {each.words}"
        for each in traffic.gaps[:3]
    ]
    more = len(traffic.gaps) - len(said)
    return " ".join([*said, *([f"And {more} more."] if more > 0 else [])])
