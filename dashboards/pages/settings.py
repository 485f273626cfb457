"""The settings page: calibration parameters, alerts and their targets, and the state of jobs and shards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf, isfinite
from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from access.roles import may
from dashboards.forms import ReasonedForm, told
from dashboards.pages.freezes import FreezeForm, freezes_shown
from dashboards.viewer import principal_of
from quotas.alerts import settings as services
from quotas.alerts.queries import target_rows
from quotas.alerts.rules import RULES
from quotas.alerts.settings import alerts_firing
from quotas.changes.freeze import freeze_lift, freeze_set, passers
from quotas.errors import Refused
from quotas.models.alert import TargetKind
from quotas.recommendations.settings import ParameterRow, calibration_settings_set, parameter_rows
from quotas.status.system import enforcement_read, freshness_read, late_of, shards_read
from quotas.tokens import lacks_to_approve, token_permit
from tenants.models import ApiToken

PERCENT = 100
UNITS = {"share": "%", "seconds": "s", "enforcers": "", "emergencies": ""}
MOST_FIRING = 20
MOST_TOKENS = 100
LIFTED = "lifted on the settings page"


class RuleForm(ReasonedForm):
    name = forms.ChoiceField(label="Alert", choices=[(name, name) for name in RULES])
    threshold = forms.FloatField(required=False, help_text="In the unit of the alert. Empty: the default.")
    is_on = forms.BooleanField(label="Enabled", required=False)


class TargetForm(ReasonedForm):
    kind = forms.ChoiceField(choices=TargetKind.choices)
    address = forms.CharField(max_length=500, help_text="A public URL or an email address")
    label = forms.CharField(max_length=200, required=False)
    quiet_from = forms.CharField(label="Quiet from", max_length=5, required=False, help_text="Such as 22:00")
    quiet_until = forms.CharField(label="Quiet until", max_length=5, required=False, help_text="Such as 07:00")
    timezone = forms.CharField(label="Time zone", max_length=64, initial="UTC")


def alerts_shown(
    may_edit: bool, rule_form: RuleForm | None = None, target_form: TargetForm | None = None
) -> dict[str, Any]:
    """The context of the alerts section, with a rejected form if there is one."""
    return {
        "alert_rules": [_target_shown(row) for row in services.alert_rules().values()],
        "alert_targets": target_rows(with_addresses=may_edit),
        "firing": list(alerts_firing()[:MOST_FIRING]),
        "rule_form": rule_form or RuleForm(initial={"is_on": True}),
        "target_form": target_form or TargetForm(),
    }


def _target_shown(row: services.RuleRow) -> dict[str, Any]:
    rule, factor = row.rule, PERCENT if row.rule.unit == "share" else 1
    return {
        "rule": rule,
        "row": row,
        "threshold": f"{row.threshold * factor:g}",
        "default": f"{rule.threshold * factor:g}",
        "unit": UNITS[rule.unit],
    }


@require_safe
def settings(request: HttpRequest) -> HttpResponse:
    return settings_page(request)


@require_POST
def settings_recommender(request: HttpRequest) -> HttpResponse:
    """Saves all changed parameters, or none if one is invalid."""
    rows = parameter_rows()
    typed = {row.name: request.POST.get(row.name, "").strip() for row in rows}
    errors: dict[str, str] = {}
    values = {row.name: value for row in rows if (value := _changed(row, typed[row.name], errors)) is not _SAME}
    reason = request.POST.get("reason", "")
    if not errors and values:
        try:
            calibration_settings_set(values=values, author=principal_of(request).actor, reason=reason)
        except Refused as refusal:
            errors = {problem.path.removeprefix("values."): problem.sentence for problem in refusal.problems}
        else:
            messages.success(
                request, f"{len(values)} parameter{'' if len(values) == 1 else 's'} saved|Used from the next run"
            )
            return redirect("dashboards:settings")
    if not errors:
        messages.info(request, "No changes|All values were already set")
        return redirect("dashboards:settings")
    return settings_page(request, typed=typed, errors=errors, reason=reason)


_SAME: Any = object()


def _changed(row: ParameterRow, text: str, errors: dict[str, str]) -> Any:
    """The new value; None resets to the default, _SAME means unchanged."""
    if not text:
        return _SAME if row.is_default else None
    if text == f"{row.value:g}":  # as it was shown, which may be rounded: whoever saves the page did not choose it
        return _SAME
    try:
        value = float(text)
    except ValueError:
        value = inf
    if not isfinite(value):
        errors[row.name] = f"{row.name} must be a number."
        return _SAME
    return _SAME if value == row.value else int(value) if value == int(value) else value


def settings_page(
    request: HttpRequest,
    typed: dict[str, str] | None = None,
    errors: dict[str, str] | None = None,
    reason: str = "",
    **refused: Any,
) -> HttpResponse:
    """The page; rejected input is shown again. `refused`: rejected forms of alerts and freezes."""
    now, fresh = timezone.now(), freshness_read()
    status = 422 if errors or refused else 200
    context = {
        "parameters": [_shown(row, typed or {}, errors or {}) for row in parameter_rows()],
        # By name: in a template, `errors.values` is the method of the dict.
        "refusal": (errors or {}).get("values", ""),
        "reason_is_missing": "reason" in (errors or {}),
        "reason": reason,
        "freshness": [(row, row.is_late(now)) for row in fresh],
        "late": late_of(fresh, now),
        "shards": shards_read(),
        "enforcement": enforcement_read(),
        "tokens": [(row, lacks_to_approve(row.role, row.scopes)) for row in _tokens()],
        **freezes_shown(refused.pop("freeze_form", None)),
        **alerts_shown(may(principal_of(request), "dashboards:alert-target", "POST"), **refused),
    }
    return render(request, "dashboards/settings/page.html", context, status=status)


def _tokens() -> QuerySet[ApiToken]:
    return ApiToken.objects.filter(revoked_at=None).select_related("tenant", "issuer")[:MOST_TOKENS]


def _shown(row: ParameterRow, typed: dict[str, str], errors: dict[str, str]) -> dict[str, Any]:
    return {"row": row, "text": typed.get(row.name, f"{row.value:g}"), "error": errors.get(row.name, "")}


ACTIONS: dict[str, Callable[..., object]] = {
    "test": services.alert_target_test,
    "delete": services.alert_target_delete,
}


@require_POST
def alert_rule(request: HttpRequest) -> HttpResponse:
    form = RuleForm(request.POST)
    if form.is_valid():
        fields = form.cleaned_data
        share = RULES[fields["name"]].unit == "share"
        value = fields["threshold"]
        try:
            services.alert_setting_set(
                name=fields["name"],
                threshold=value / PERCENT if share and value is not None else value,
                is_on=fields["is_on"],
                author=principal_of(request).actor,
                reason=fields["reason"],
            )
        except Refused as refusal:
            form.refused(refusal)
    if form.errors:
        return settings_page(request, rule_form=form)
    return _done(request, "Alert saved|Used from the next check")


@require_POST
def alert_target_add(request: HttpRequest) -> HttpResponse:
    form, said = TargetForm(request.POST), "Target added"
    if form.is_valid():
        quiet = {name: form.cleaned_data[name] or None for name in ("quiet_from", "quiet_until")}
        fields: dict[str, Any] = {**form.cleaned_data, **quiet}
        try:
            issued = services.alert_target_create(**fields, author=principal_of(request).actor)
            # The secret is shown only once.
            said += f"|Copy its secret now; it is not shown again: {issued.secret}" if issued.secret else ""
        except Refused as refusal:
            form.refused(refusal)
    if form.errors:
        return settings_page(request, target_form=form)
    return _done(request, said)


@require_POST
def alert_target(request: HttpRequest, number: int, action: str) -> HttpResponse:
    if action not in ACTIONS:
        raise Http404(f"Unknown action: {action}.")
    said = {"author": principal_of(request).actor, "reason": f"{action}, from the settings page"}
    done = {"test": "Test alert queued|It is sent with the next alerts", "delete": "Target deleted"}[action]
    told(request, partial(ACTIONS[action], target=number, **said), lambda _: done)
    return redirect("/settings#alerts")


def _done(request: HttpRequest, said: str) -> HttpResponse:
    messages.success(request, said)
    return redirect("/settings#alerts")


@require_POST
def freeze(request: HttpRequest) -> HttpResponse:
    form = FreezeForm(request.POST, auto_id="freeze_%s")
    if form.is_valid():
        try:
            row = freeze_set(author=principal_of(request).actor, **form.asked())
        except Refused as refusal:
            form.refused(refusal)
        else:
            messages.success(request, f"Freeze set|{passers(row)} may pass")
            return redirect("/settings#freezes")
    return settings_page(request, freeze_form=form)


@require_POST
def freeze_end(request: HttpRequest, number: int) -> HttpResponse:
    act = partial(freeze_lift, freeze=number, author=principal_of(request).actor, reason=LIFTED)
    told(request, act, lambda row: f"{str(row).capitalize()} lifted|Changes are possible again")
    return redirect("/settings#freezes")


@require_POST
def token(request: HttpRequest, key_id: str) -> HttpResponse:
    may_approve = "may_approve" in request.POST
    said = {"author": principal_of(request).actor, "reason": "set on the settings page"}
    act = partial(token_permit, key_id=key_id, may_approve=may_approve, **said)
    told(request, act, lambda row: f"{row.label} {'may approve' if may_approve else 'no longer approves'}|Token {row}")
    return redirect("/settings#tokens")
