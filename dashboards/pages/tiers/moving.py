"""Moving all tenants of a tier, and retiring it: each tenant's limits are compared before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from dashboards.forms import ReasonedForm, outcome_toast, sentences_of
from dashboards.pages.tenant.fields import StrandedField, stranded_choice
from dashboards.viewer import principal_of
from headroom_edge.keys import OWN_TENANT
from quotas.changes.commit import LARGE_EDIT, Outcome, commit
from quotas.errors import Refused
from quotas.tenants import tenants_move, tier_retire
from quotas.tenants.moves import TenantMove, move_preview
from quotas.tenants.stranded import StrandedChoice, StrandedOverride
from tenants.models import Tier

MOST_ROWS = 50  # tenants with a choice of their own


class MoveForm(ReasonedForm):
    to = forms.CharField(max_length=63, required=False)
    force = forms.BooleanField(label="I have reviewed who gets tighter", required=False)
    stranded_overrides = StrandedField()


@dataclass(frozen=True, slots=True)
class MoveRow:
    move: TenantMove
    to: str


@require_http_methods(["GET", "HEAD", "POST"])
def tier_move(request: HttpRequest, name: str) -> HttpResponse:
    return _dialog(request, name, retires=False)


@require_http_methods(["GET", "HEAD", "POST"])
def tier_retirement(request: HttpRequest, name: str) -> HttpResponse:
    return _dialog(request, name, retires=True)


def _dialog(request: HttpRequest, name: str, *, retires: bool) -> HttpResponse:
    row = Tier.objects.filter(name=name, retired=False).exclude(name=OWN_TENANT).first()
    if row is None:
        raise Http404(f"No tier is called {name}.")
    names = list(row.tenants.filter(archived_at=None).order_by("name").values_list("name", flat=True))
    to, places = request.POST.get("to", ""), _places(request, names)
    does = request.POST.get("do") == "apply"
    form = MoveForm(request.POST if does else None, initial=request.POST.dict(), auto_id="m_%s")
    if does and form.is_valid():
        act = partial(_retire if retires else _move, request, name, names, to, places, form)
        try:
            # Many are judged before the edit takes its turn, so that other editors need not wait for that.
            outcome: Outcome[object] = commit(act, rehearsal=act if len(names) > LARGE_EDIT else None)
        except Refused as refusal:
            form.refused(refusal)
        else:
            messages.success(request, outcome_toast(outcome))
            place = reverse("dashboards:tiers") if retires else reverse("dashboards:tier", args=[name])
            return HttpResponse(headers={"HX-Redirect": place})
    choice = stranded_choice(request.POST)
    rows, stranded, problems = _compared(names, to, places, choice)
    context = {
        "tier": row,
        "form": form,
        "retires": retires,
        "address": request.path,
        "count": len(names),
        "archived": row.tenants.exclude(archived_at=None).count() if retires else 0,
        "to": to,
        "tiers": _others(name),
        "rows": rows[:MOST_ROWS],
        "more": max(len(names) - MOST_ROWS, 0) if rows else 0,
        "tighter": sum(bool(one.move.tighter or one.move.new) for one in rows),
        "hurt": sum(bool(one.move.hurt) for one in rows),
        "is_ready": not problems and (len(rows) == len(names)) and (retires or bool(names)),
        "problems": problems,
        "stranded": stranded,
        "choice": choice,
        "may_stay": not retires,
    }
    return render(request, "dashboards/tiers/move_form.html", context, status=422 if form.is_bound else 200)


def _others(name: str) -> list[str]:
    rows = Tier.objects.filter(retired=False).exclude(name__in=(name, OWN_TENANT))
    return list(rows.order_by("name").values_list("name", flat=True))


def _places(request: HttpRequest, names: Sequence[str]) -> dict[str, str]:
    """Tenant → the tier that was chosen for it alone."""
    chosen = ((name, request.POST.get(f"to-{name}", "")) for name in names)
    return {name: tier for name, tier in chosen if tier}


def _compared(
    names: Sequence[str], to: str, places: Mapping[str, str], choice: StrandedChoice
) -> tuple[list[MoveRow], list[StrandedOverride], list[str]]:
    """Who is hurt first, then who gets tighter; the overrides in the way; what is wrong."""
    groups: dict[str, list[str]] = {}
    for name in names:
        if target := places.get(name, to):
            groups.setdefault(target, []).append(name)
    try:
        previews = [
            move_preview(names=group, tier=tier, stranded_overrides=choice) for tier, group in sorted(groups.items())
        ]
    except Refused as refusal:
        return [], [], sentences_of(refusal)
    moves = [MoveRow(move, preview.tier) for preview in previews for move in preview.moves]
    return sorted(moves, key=_worst_first), [each for preview in previews for each in preview.stranded], []


def _worst_first(row: MoveRow) -> tuple[bool, bool, bool, str]:
    return not row.move.hurt, not row.move.tighter, not row.move.new, row.move.tenant


def _said(request: HttpRequest, form: MoveForm) -> dict[str, Any]:
    permits = {field: form.cleaned_data[field] for field in ("force", "stranded_overrides")}
    return {"author": principal_of(request).actor, "reason": form.cleaned_data["reason"], **permits}


def _retire(
    request: HttpRequest, name: str, names: Sequence[str], to: str, places: Mapping[str, str], form: MoveForm
) -> object:
    return tier_retire(name=name, to=to or None, places=places, **_said(request, form))


def _move(
    request: HttpRequest, name: str, names: Sequence[str], to: str, places: Mapping[str, str], form: MoveForm
) -> object:
    return tenants_move(names=names, tier=to, **_said(request, form))
