"""The promotion dialog: whom it cuts, an override offered for each, and what has to be accepted first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from dashboards.forms import ReasonedForm, sentences_of
from dashboards.pages.changes.actions import shown_in_dialogs, to_address
from dashboards.pages.changes.summary import summary_of
from dashboards.viewer import principal_of
from quotas.changes.guard import can_keep
from quotas.changes.impact import Impact, WorstCut
from quotas.changes.peaks import TenantBelow
from quotas.changes.promotion import change_impact, change_promote, dearer_endpoints
from quotas.errors import Refused
from quotas.models import Change
from quotas.trials.report import Trial, trial_of

KEEP_DAYS: Final = 30
LISTED: Final = 20
CHOICE: Final = "cut-"
EVERYBODY: Final = "*"
DAY_H: Final = 24


class PromoteForm(ReasonedForm):
    reviewed = forms.BooleanField(label="I have reviewed these cuts", required=False)
    emergency = forms.BooleanField(
        label="Emergency: skip approval. Others are told, and somebody else has to look at it", required=False
    )


@dataclass(frozen=True, slots=True)
class CutRow:
    """A tenant that would be left less than it asked for."""

    below: TenantBelow
    a_day: int | None  # requests that its trial would have denied, for a day; None: it says nothing yet
    chosen: str
    may_keep: bool  # its limits as they were would leave it what it has

    @property
    def field(self) -> str:
        return f"{CHOICE}{self.below.tenant}"


@require_http_methods(["GET", "HEAD", "POST"])
def promote(request: HttpRequest, number: int) -> HttpResponse:
    """GET shows whom it would cut; POST does it, if each cut is accepted or spared."""
    row = get_object_or_404(Change, pk=number)
    is_sent = request.method == "POST"
    form = PromoteForm(request.POST if is_sent else None, auto_id="promote_%s")
    problems: list[str] = []
    if is_sent and form.is_valid():
        try:
            change_promote(change=number, **_asked(request, form))
        except Refused as refused:
            form.refused(refused)
        else:
            messages.success(request, f"Change promoted|Change {number} is enforced as soon as it is published")
            return to_address(reverse("dashboards:change", args=[number]))
    try:
        impact = change_impact(change=number, author=principal_of(request).actor)
    except Refused as refused:
        impact, problems = Impact(), sentences_of(refused)
    trial = trial_of(row)
    context = {
        **shown_in_dialogs(row),
        "form": form,
        "problems": problems,
        "verdict": trial.verdict,
        "summary": summary_of(row),
        "impact": impact,
        "seen": [f"{cut.percent}|{cut.endpoint}|{cut.limit}" for cut in impact.worst],
        "rows": _rows(trial, impact, request),
        "more": impact.below_count - min(len(impact.below), LISTED),
        "more_field": f"{CHOICE}{EVERYBODY}",
        "more_chosen": request.POST.get(f"{CHOICE}{EVERYBODY}", ""),
        "keep_days": KEEP_DAYS,
    }
    return render(request, "dashboards/change/promote_form.html", context, status=422 if is_sent else 200)


def _rows(trial: Trial, impact: Impact, request: HttpRequest) -> list[CutRow]:
    counts, dearer = trial.counts, dearer_endpoints(trial.change)
    days = counts.hours / DAY_H if counts else 0.0
    would = {one.tenant: one.would_deny for one in counts.tenants} if counts else {}
    return [
        CutRow(
            below,
            expected_a_day(would.get(below.tenant, 0), days),
            request.POST.get(f"{CHOICE}{below.tenant}", ""),
            can_keep(below, dearer),
        )
        for below in impact.below[:LISTED]
    ]


def expected_a_day(would_deny: int, days: float) -> int | None:
    """None: less than a day without a would-be 429 is no reason to expect none, as the peak may come once a day."""
    return round(would_deny / days) if days >= 1 or (days and would_deny) else None


def _asked(request: HttpRequest, form: PromoteForm) -> dict[str, Any]:
    """What was ticked is what may be cut: `seen` has the cuts that the dialog listed."""
    chosen = {name.removeprefix(CHOICE): value for name, value in request.POST.items() if name.startswith(CHOICE)}
    keep = [name for name, choice in chosen.items() if choice == "keep"]
    data = form.cleaned_data
    return {
        "author": principal_of(request).actor,
        "reason": data["reason"],
        "emergency": data["emergency"],
        "accept": [name for name, choice in chosen.items() if choice == "accept"],
        "grandfather": keep or None,
        "grandfather_days": KEEP_DAYS if keep else None,
        "cuts": _seen(request.POST.getlist("seen")) if data["reviewed"] else None,
        "force": data["reviewed"] and request.POST.get("lost") == "1",
    }


def _seen(texts: Sequence[str]) -> list[WorstCut]:
    found = []
    for text in texts:
        percent, _, rest = text.partition("|")
        endpoint, _, limit = rest.partition("|")
        try:
            found.append(WorstCut(endpoint, limit, float(percent)))
        except ValueError:
            continue  # not what the dialog sent: it covers nothing
    return found
