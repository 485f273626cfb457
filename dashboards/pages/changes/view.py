"""The changes page: revisions with their diff and effect, pending changes, and active bypasses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboards.figure import Column, Figure, FigureRow, Panel, flag, gap
from dashboards.forms import number_of
from dashboards.pages.changes.actions import BypassForm
from dashboards.pages.changes.summary import RevisionRow, revision_rows, summary_of
from dashboards.pages.emergencies import emergencies_shown
from quotas.changes.affected import effect_of
from quotas.changes.queries import Aftermath, aftermaths_read, scope_of
from quotas.models import Change, Revision
from quotas.models.change import ENDED
from quotas.status.summary import StatusSummary, status_summary_read
from quotas.status.system import enforcement_read
from quotas.usage.queries.denial_causes import published_at
from quotas.usage.queries.periods import period_between
from quotas.usage.queries.traffic import traffic_read

PAGE = 25
AROUND = timedelta(hours=1)
KINDS = ("policy", "tenant", "endpoint", "override", "tier", "change")


@dataclass(frozen=True, slots=True)
class RevisionDay:
    day: datetime
    rows: Sequence[RevisionRow]


@require_safe
def changes(request: HttpRequest) -> HttpResponse:
    if (number := number_of(request.GET.get("change", ""))) is not None:
        return redirect("dashboards:change", number)
    rows = list(_wanted(request)[: PAGE + 1])
    page = rows[:PAGE]
    pulse = status_summary_read()
    found = aftermaths_read(page, pulse.drained_at)
    context: dict[str, Any] = {
        "days": _days(page, found),
        "before": page[-1].number if len(rows) > PAGE else None,
        "query": request.GET.get("q", ""),
        "touched": request.GET.get("touched", ""),
        "open": [(row, summary_of(row)) for row in Change.objects.exclude(state__in=ENDED).order_by("-id")[:50]],
        "enforcement": enforcement_read(),
        "emergencies": emergencies_shown(request),
        "bypass_form": BypassForm(auto_id="bypass_%s"),
        **_revision_detail(_chosen(request, page), found, pulse),
    }
    return render(request, "dashboards/changes/page.html", context)


def _wanted(request: HttpRequest) -> QuerySet[Revision]:
    asked = request.GET
    rows = Revision.objects.order_by("-number")
    if before := number_of(asked.get("before", "")):
        rows = rows.filter(number__lt=before)
    if touched := asked.get("touched", ""):
        rows = rows.filter(touched__contains=[touched])
    if text := asked.get("q", "").strip():
        # Exact names use the index on `touched`; a substring search would scan every revision.
        rows = rows.filter(Q(author=text) | Q(touched__overlap=[text, *(f"{kind}:{text}" for kind in KINDS)]))
    return rows


def _days(rows: Sequence[Revision], aftermaths: Mapping[int, Aftermath]) -> list[RevisionDay]:
    days = groupby(revision_rows(rows, aftermaths), key=lambda row: row.revision.created.date())
    return [RevisionDay(own[0].revision.created, own) for own in (list(group) for _, group in days)]


def _chosen(request: HttpRequest, page: Sequence[Revision]) -> Revision | None:
    number = request.GET.get("revision", "")
    if not number:
        return page[0] if page else None
    row = Revision.objects.filter(number=number_of(number) or 0).first()
    if row is None:
        raise Http404
    return row


def _revision_detail(row: Revision | None, found: Mapping[int, Aftermath], pulse: StatusSummary) -> dict[str, Any]:
    if row is None:
        return {"revision": None}
    effect = effect_of(row, is_written=True)
    took = published_at(row) - row.created if row.published_us else None
    return {
        "revision": row,
        "summary": summary_of(row),
        "aftermath": found.get(row.number) or aftermaths_read([row], pulse.drained_at).get(row.number),
        "differences": effect.changes,
        "tenants": effect.tenants,
        "is_published": pulse.published is not None and pulse.published >= row.number,
        "is_newest": pulse.revision == row.number,
        "took": None if took is None or took > timedelta(minutes=5) else max(took, timedelta()),
        "figure": effect_figure(row),
    }


def effect_figure(row: Revision) -> Figure | None:
    """The 429 share an hour before and after publishing, for the tenants and endpoints of the revision."""
    if not row.published_us:
        return None
    at, now = published_at(row), timezone.now()
    period = period_between(at - AROUND, at + AROUND, now)
    scope = scope_of(row)
    traffic = traffic_read(period, owners=scope.owners, endpoints=scope.endpoints)
    rows = [
        FigureRow(each.start, [None if (share := each.denied_share) is None else 100 * share])
        for each in reversed(traffic.moments)
    ]
    return Figure(
        id="effect",
        title="Effect on 429s",
        note=f"429 share of the affected tenants and endpoints, {period.step_words} steps",
        columns=(Column("Denied", "%", "area", "denied"),),
        rows=rows,
        panels=(Panel("% denied", 140),),
        marks=[*(gap(each.start, each.end, each.words) for each in traffic.gaps), flag(at, f"r{row.number}")],
        start=period.begin.timestamp(),
        end=period.end.timestamp(),
    )
