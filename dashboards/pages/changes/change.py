"""The page of one change: its stages, what its trial has shown, the verdict, and what can be done next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboards.forms import sentences_of
from dashboards.pages.changes.actions import RuleForm, StartForm, forms_of, shown_in_dialogs
from dashboards.pages.changes.stages import steps_of
from dashboards.pages.changes.summary import summary_of
from dashboards.pages.changes.trial_figures import canary_figure, trial_figure
from dashboards.viewer import principal_of, viewer_of
from quotas.changes.approval import approver_objection
from quotas.changes.queries import aftermaths_read
from quotas.changes.trial_policies import TriedLimit
from quotas.csv_text import csv_lines
from quotas.models import Change, Recommendation
from quotas.models.change import TRIED, ChangeState
from quotas.policies.diff import differences
from quotas.policies.spec import EVERYWHERE
from quotas.status.summary import status_summary_read
from quotas.trials.canary import FEWEST, canary_points
from quotas.trials.counts import TenantCounts, period_of, points_read, series_read, worst_hours_read, worst_minutes_read
from quotas.trials.report import Trial, trial_of
from quotas.trials.scope import Window
from quotas.trials.verdict import enough_hours, planned_hours, short_hours
from tenants.identity import actor_of

FEW: Final = 8  # tenants, unless all are asked for
MOST: Final = 500
STEPS: Final = (5, 25, 50, 100)  # of a canary, in percent
COLUMNS: Final = (
    *("tenant", "requests", "would_be_429s", "share_percent", "would_pass", "live_429s"),
    *("worst_minute", "worst_minute_would_be_429s", "worst_minute_requests"),
)


@require_safe
def change(request: HttpRequest, number: int) -> HttpResponse:
    row = get_object_or_404(Change, pk=number)
    now = timezone.now()
    trial = trial_of(row, now)
    recommendation = Recommendation.objects.filter(change=row).first()
    shown = shown_in_dialogs(row)
    context: dict[str, Any] = {
        **shown,
        "trial": trial,
        "summary": summary_of(row),
        "differences": differences(row.before, row.after),
        "approvals": list(row.approvals.all()),
        "obstacle": _obstacle(row, request),
        "recommendation": recommendation,
        "promote_title": f"Promote change {row.pk}?",
        "share_percent": None if row.share is None else row.share / 10,
        "is_tried": row.state in TRIED,
        "forms": forms_of(row),
        "start_form": StartForm(auto_id="start_%s"),
        "rule_form": RuleForm.of(row),
        "steps": steps_of(trial, waits=shown["waits"], recommendation=recommendation, aftermath=_aftermath(row)),
        **_shadow_part(request, trial, now),
        **_canary_part(trial, now),
    }
    return render(request, "dashboards/change/page.html", context)


@require_safe
def change_csv(request: HttpRequest, number: int) -> HttpResponse | StreamingHttpResponse:
    """Every tenant of the shadow, with its counts to the unit."""
    row = get_object_or_404(Change, pk=number)
    trial = trial_of(row)
    tenants = trial.counts.tenants if trial.counts else []
    if trial.counts:
        worst_minutes_read(trial.scope, trial.counts, tenants)
    headers = {"Content-Disposition": f'attachment; filename="change-{row.pk}.csv"'}
    lines = csv_lines(COLUMNS, _cells(tenants))
    return StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8", headers=headers)


def _cells(tenants: Sequence[TenantCounts]) -> Iterator[Sequence[object]]:
    for one in tenants:
        worst = (one.worst_at.isoformat(), one.worst_would, one.worst_asked) if one.worst_at else ("", 0, 0)
        share = round(100 * one.share, 4)
        yield (one.tenant, one.asked, one.would_deny, share, one.would_allow, one.denied, *worst)


def _aftermath(row: Change) -> Any:
    if row.state != ChangeState.PROMOTED or row.end_revision is None:
        return None
    return aftermaths_read([row.end_revision], status_summary_read().drained_at).get(row.end_revision.number)


def _shadow_part(request: HttpRequest, trial: Trial, now: datetime) -> dict[str, Any]:
    counts = trial.counts
    if counts is None:
        return {}
    wants_all = request.GET.get("all") == "1"
    hit = min(counts.hit, MOST)
    listed = counts.tenants[: MOST if wants_all else max(FEW, hit)]
    period = period_of(counts, now)
    worst_minutes_read(trial.scope, counts, listed)
    series_read(trial.scope, counts, listed, period)
    worst_hour, worst_tenant_hour = worst_hours_read(trial.scope, counts.begin, counts.until)
    rest = counts.tenants[len(listed) :]
    row = trial.change
    return {
        "counts": counts,
        "listed": listed,
        "rest_count": len(rest),
        "rest_asked": sum(one.asked for one in rest),
        "figure": trial_figure(trial.scope, counts, period, points_read(trial.scope, period)),
        "worst_hour": worst_hour,
        "worst_tenant_hour": worst_tenant_hour,
        "several_limits": len(trial.scope.limits) > 1,
        "live": _one_place(trial.scope.limits),
        "live_span": Window(counts.begin, counts.until),
        "hours_lasted": short_hours(counts.hours),
        "hours_planned": short_hours(planned_hours(row, counts.begin)),
        "hours_enough": short_hours(enough_hours(row, counts.begin)),
        "hours_percent": round(min(100 * counts.hours / (planned_hours(row, counts.begin) or 1), 100), 1),
        "meters": [
            _meter("Would be denied", counts.total.share, row.bar_share, "% of all requests"),
            *(
                [_meter(f"Worst tenant, {worst.tenant}", worst.share, row.bar_tenant, "% of one tenant")]
                if (worst := counts.worst)
                else []
            ),
        ],
    }


def _one_place(limits: Sequence[TriedLimit]) -> TriedLimit | None:
    """The limit whose denials one filter of the decision log lists; on `*`, other limits of its name are among them."""
    return limits[0] if len(limits) == 1 and not limits[0].endpoint.endswith(EVERYWHERE) else None


def _meter(name: str, share: float, bar: float, unit: str) -> dict[str, Any]:
    """A bar that ends at one and a half times what is allowed."""
    most = 1.5 * bar
    return {
        "name": name,
        "value": f"{100 * share:.2g} {unit.partition(' ')[0]}",
        "width": round(min(100 * share / most, 100), 1),
        "is_above": share > bar,
        "bar": f"bar {100 * bar:.3g} {unit}",
        "most": f"0 to {100 * most:.3g} {unit.partition(' ')[0]}",
    }


def _canary_part(trial: Trial, now: datetime) -> dict[str, Any]:
    counts = trial.canary
    if counts is None:
        return {}
    period, points = canary_points(trial.change, counts, now)
    share = (trial.change.share or 0) / 10
    added = max(counts.due_to_change, 0) if counts.canary.now.asked >= FEWEST else 0.0
    return {
        "canary": counts,
        "canary_figure": canary_figure(counts, period, points),
        "due_points": 100 * counts.due_to_change,
        "canary_listed": counts.tenants[:MOST],
        "canary_tenants": counts.canary.tenants + counts.rest.tenants,
        "share_steps": [(step, step <= share) for step in STEPS],
        "next_share": next((step for step in STEPS if step > share), None),
        "meters": [_meter("429s that the change adds", added, trial.change.bar_share, "points")],
    }


def _obstacle(row: Change, request: HttpRequest) -> str:
    """Why the viewer cannot approve it; empty: they can."""
    if not viewer_of(request).approves:
        return "An approver or owner has to approve it."
    problem = approver_objection(row, actor_of(principal_of(request).actor))
    return "" if problem is None else sentences_of(problem)[0]
