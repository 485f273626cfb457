"""Actions of the changes page, with their forms: roll back, revert, approve, start, promote, drop and bypass."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from dashboards.forms import MomentField, ReasonedForm, in_zone, outcome_toast, sentences_of
from dashboards.viewer import principal_of
from headroom_edge.algorithms.base import counted
from quotas.bypass import bypass_clear, bypass_set
from quotas.changes.affected import effect_of
from quotas.changes.approval import change_approve, waits_for_approver
from quotas.changes.commit import commit
from quotas.changes.guard import BelowPeakRefused
from quotas.changes.rollout import change_drop, change_start
from quotas.changes.trial_rule import TrialRule, trial_rule_set
from quotas.changes.undo import is_own_undo, revision_revert, revision_rollback, trials_undone
from quotas.changes.undo_preview import MOST_JUDGED, Undone
from quotas.errors import Refused
from quotas.models import Change
from quotas.models.revision import newest_revision_number


class ForcedForm(ReasonedForm):
    force = forms.BooleanField(label="Apply anyway: I have reviewed these cuts", required=False)
    emergency = forms.BooleanField(
        label="Emergency: skip approval. Others are told, and somebody else has to look at it", required=False
    )


class UndoForm(ForcedForm):
    reopen_trials = forms.BooleanField(label="Put them on trial again", required=False)


class RollbackForm(UndoForm):
    # The last revision that its author saw.
    newest = forms.IntegerField(
        required=False,
        widget=forms.HiddenInput,
        error_messages={"invalid": "The newest revision that you saw must be a number; close this and look again."},
    )


class RuleForm(ReasonedForm):
    bar_share = forms.FloatField(label="Of all requests", min_value=0.0001, max_value=100)
    bar_tenant = forms.FloatField(label="Of one tenant's requests", min_value=0.0001, max_value=100)
    auto_stop = forms.BooleanField(label="End the trial automatically", required=False)
    then = forms.ChoiceField(
        label="If it stays below the bars",
        choices=[
            ("ask", "Ask a person: it goes on until somebody decides"),
            ("promote", "Promote it, if it is approved and cuts nobody"),
            ("end", "End it, and keep the live limits"),
        ],
    )
    extend_h = forms.ChoiceField(
        label="Extend by",
        required=False,
        choices=[("", "As planned"), ("24", "24 h"), ("48", "48 h"), ("168", "7 days")],
    )
    ends = MomentField(label="Or until", required=False)
    zone = forms.CharField(required=False, widget=forms.HiddenInput({"data-zone-name": ""}))
    planned = forms.CharField(required=False, widget=forms.HiddenInput)

    @classmethod
    def of(cls, row: Change) -> RuleForm:
        planned = row.trial_ends.isoformat() if row.trial_ends else ""
        initial = {
            "bar_share": round(100 * row.bar_share, 4),
            "bar_tenant": round(100 * row.bar_tenant, 4),
            "auto_stop": row.auto_stop,
            "then": row.trial_then,
            "planned": planned,
        }
        return cls(auto_id="rule_%s", initial=initial)

    def rule(self) -> TrialRule:
        data = self.cleaned_data
        return TrialRule(
            data["bar_share"] / 100, data["bar_tenant"] / 100, self._ends(), data["then"], data["auto_stop"]
        )

    def _ends(self) -> datetime | None:
        """A later end counts from the planned one, so that a second click does not add the time twice."""
        data = self.cleaned_data
        if data["ends"]:
            return in_zone(data["ends"], data["zone"])
        if not data["extend_h"]:
            return None
        now = timezone.now()
        try:
            later = max(datetime.fromisoformat(data["planned"]), now)
            return later + timedelta(hours=int(data["extend_h"]))
        except (ValueError, TypeError, OverflowError):  # not what the form sent
            return now + timedelta(hours=int(data["extend_h"]))


class StartForm(ForcedForm):
    mode = forms.ChoiceField(
        label="Mode",
        choices=[
            ("shadow", "Shadow: counts beside the live limits, denies no requests"),
            ("canary", "Canary: for a share of tenants"),
            ("scheduled", "Scheduled: for all tenants at a set time"),
        ],
    )
    share_percent = forms.FloatField(
        label="Share of tenants", required=False, min_value=0.1, max_value=99.9, initial=10
    )
    at = MomentField(label="Time", required=False)
    zone = forms.CharField(required=False, widget=forms.HiddenInput({"data-zone-name": ""}))

    fields_of: ClassVar[dict[str, str]] = {"share": "share_percent"}

    def moment(self) -> datetime | None:
        return in_zone(self.cleaned_data.get("at"), self.cleaned_data.get("zone", ""))

    def asked(self) -> dict[str, Any]:
        """The arguments of the chosen mode."""
        mode = self.cleaned_data["mode"]
        if mode == "canary":
            return {"share_percent": self.cleaned_data.get("share_percent")}
        return {"at": self.moment()} if mode == "scheduled" else {}


class BypassForm(ReasonedForm):
    scope = forms.ChoiceField(
        label="Scope",
        choices=[
            ("tenant", "a tenant"),
            ("endpoint", "an endpoint"),
            ("limit", "a limit"),
            ("all", "all limits (approvers and owners only)"),
        ],
    )
    name = forms.CharField(label="Name", required=False, max_length=128)
    duration = forms.ChoiceField(
        label="Duration", choices=[("15m", "15 minutes"), ("1h", "1 hour"), ("4h", "4 hours"), ("1d", "1 day")]
    )


def forms_of(row: Change) -> dict[str, Any]:
    """Empty forms for the dialogs of a change."""
    return {
        "approve": ReasonedForm(auto_id=f"approve-{row.pk}-%s"),
        "step": StartForm(auto_id=f"step-{row.pk}-%s"),
        "drop": ReasonedForm(auto_id=f"drop-{row.pk}-%s"),
    }


def shown_in_dialogs(row: Change) -> dict[str, Any]:
    return {"change": row, "waits": waits_for_approver(row), "whom": _whom(row)}


def _whom(row: Change) -> str:
    """Those whose limits the change touches, in words."""
    tenants = effect_of(row, is_written=False).tenants
    if tenants.is_everyone:
        return "all tenants"
    return tenants.names[0] if tenants.count == 1 else f"{tenants.count:,} tenants"


DONE = {
    "approve": "Change approved",
    "start": "Trial started",
    "trial": "Trial rule saved",
    "drop": "Change dropped",
}
UNDOING: dict[str, tuple[type[UndoForm], Callable[..., object], Callable[[int], Undone]]] = {
    "rollback": (RollbackForm, revision_rollback, Undone.by_rollback),
    "revert": (UndoForm, revision_revert, Undone.by_revert),
}


@require_http_methods(["GET", "HEAD", "POST"])
def undo(request: HttpRequest, number: int, way: str) -> HttpResponse:
    """GET shows what would change; POST does it. Of many objects, only POST judges whom it hurts."""
    if way not in UNDOING:
        raise Http404
    kind, act, undoes = UNDOING[way]
    seen = {"newest": newest_revision_number()}  # read first: what is written during the preview was not seen
    form = kind(request.POST if request.method == "POST" else None, auto_id="undo_%s", initial=seen)
    again = partial(act, number=number, author=principal_of(request).actor)
    context: dict[str, Any] = {"form": form, "number": number, "way": way}
    try:
        undone = undoes(number)
        is_large = undone.touched > MOST_JUDGED
        context |= {
            "trials": trials_undone(undone.first, undone.last),
            "is_own": is_own_undo(undone.first, undone.last, principal_of(request).actor),
        }
        if request.method == "POST" and form.is_valid():
            edit = partial(again, **form.cleaned_data)
            messages.success(request, outcome_toast(commit(edit, rehearsal=edit if is_large else None)))
            return to_address(reverse("dashboards:changes"))
        if is_large:
            context["preview"] = undone.preview()
        else:
            found = commit(partial(again, reason="dry run", force=True), "dry_run")
            context |= {"found": found, "changes": found.effect.changes}
    except Refused as refused:
        if request.method == "POST":
            form.refused(refused)
        else:
            context["problems"] = sentences_of(refused)
    status = 422 if request.method == "POST" else 200
    return render(request, "dashboards/changes/undo_form.html", context, status=status)


@require_POST
def approve(request: HttpRequest, number: int) -> HttpResponse:
    def act(who: str, why: str) -> object:
        return change_approve(change=number, approver=who, reason=why)

    return _done(request, number, ReasonedForm(request.POST), "approve", act)


@require_POST
def start(request: HttpRequest, number: int) -> HttpResponse:
    form = StartForm(request.POST)

    def act(who: str, why: str) -> object:
        data = form.cleaned_data
        return change_start(
            change=number,
            mode=data["mode"],
            author=who,
            reason=why,
            force=data["force"],
            emergency=data["emergency"],
            accept=request.POST.getlist("accept"),
            **form.asked(),
        )

    return _done(request, number, form, "start", act)


@require_POST
def trial(request: HttpRequest, number: int) -> HttpResponse:
    """Sets the bars, the end and what follows it; extends the trial."""
    form = RuleForm(request.POST, auto_id="rule_%s")

    def act(who: str, why: str) -> object:
        return trial_rule_set(change=number, author=who, reason=why, rule=form.rule())

    return _done(request, number, form, "trial", act)


@require_POST
def drop(request: HttpRequest, number: int) -> HttpResponse:
    form = ReasonedForm(request.POST)
    return _done(request, number, form, "drop", lambda who, why: change_drop(change=number, author=who, reason=why))


def _done(
    request: HttpRequest, number: int, form: ReasonedForm, what: str, act: Callable[[str, str], object]
) -> HttpResponse:
    row = get_object_or_404(Change, pk=number)
    context: dict[str, Any] = {"form": form, "what": what, "accepted": request.POST.getlist("accept")}
    if form.is_valid():
        try:
            act(principal_of(request).actor, form.cleaned_data["reason"])
        except BelowPeakRefused as refused:
            count = counted(len(refused.missing) + refused.more, "tenant", "tenants")
            form.add_error(None, f"{count} would be left less than they asked for. Tick each that may be cut.")
            context |= {"below": refused.missing, "more": refused.more}
        except Refused as refused:
            form.refused(refused)
        else:
            messages.success(request, f"{DONE[what]}|Change {number}")
            return to_address(reverse("dashboards:change", args=[number]))
    context |= shown_in_dialogs(row)
    return render(request, "dashboards/changes/change_form.html", context, status=422)


@require_POST
def bypass(request: HttpRequest) -> HttpResponse:
    form = BypassForm(request.POST, auto_id="bypass_%s")
    if form.is_valid():
        data = form.cleaned_data
        try:
            switch = bypass_set(
                scope=data["scope"],
                name=data["name"].strip(),
                duration=data["duration"],
                author=principal_of(request).actor,
                reason=data["reason"],
            )
        except Refused as refused:
            form.refused(refused)
        else:
            messages.success(request, f"Bypass active: {switch}|Limits deny no requests until it ends")
            return to_address(f"{reverse('dashboards:changes')}#bypass")
    return render(request, "dashboards/changes/bypass_form.html", {"bypass_form": form}, status=422)


@require_POST
def bypass_end(request: HttpRequest) -> HttpResponse:
    scope, name = request.POST.get("scope", ""), request.POST.get("name", "")
    form = ReasonedForm(request.POST)
    if form.is_valid():
        author, reason = principal_of(request).actor, form.cleaned_data["reason"]
        try:
            bypass_clear(scope=scope, name=name, author=author, reason=reason)  # type: ignore[arg-type]  # else Refused
        except Refused as refused:
            form.refused(refused)
        else:
            messages.success(request, "Bypass ended|Limits are enforced again")
            return to_address(f"{reverse('dashboards:changes')}#bypass")
    context = {"form": form, "scope": scope, "name": name}
    return render(request, "dashboards/changes/bypass_end_form.html", context, status=422)


def to_address(place: str) -> HttpResponse:
    return HttpResponse(headers={"HX-Redirect": place})
