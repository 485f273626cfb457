"""Alerts on the settings page: when each fires, and whom it tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from dashboards.forms import PageForm, ReasonedForm
from dashboards.viewer import principal_of
from quotas.alerts.rules import RULES
from quotas.models import AlertTarget
from quotas.models.alert import TargetKind
from quotas.selectors.alerts import alerts_firing
from quotas.services import alerts as services
from quotas.services.errors import Refused

PERCENT = 100
UNITS = {"share": "%", "seconds": "s", "enforcers": "enforcers"}
MOST_FIRING = 20
ACTIONS: dict[str, Callable[..., object]] = {
    "test": services.alert_target_test,
    "delete": services.alert_target_delete,
}


class RuleForm(ReasonedForm):
    name = forms.ChoiceField(label="Alert", choices=[(name, name) for name in RULES])
    threshold = forms.FloatField(required=False, help_text="In the unit of the alert; empty: its default.")
    is_on = forms.BooleanField(label="It fires", required=False)


class TargetForm(ReasonedForm):
    kind = forms.ChoiceField(choices=TargetKind.choices)
    address = forms.CharField(max_length=500, help_text="A URL that the internet can reach, or an e-mail address.")
    label = forms.CharField(max_length=200, required=False)
    quiet_from = forms.CharField(label="Quiet from", max_length=5, required=False, help_text="22:00")
    quiet_until = forms.CharField(label="Quiet until", max_length=5, required=False, help_text="07:00")
    timezone = forms.CharField(label="Time zone", max_length=64, initial="UTC")


class GoneForm(PageForm):
    reason = forms.CharField(max_length=500, required=False)


def alerts_shown() -> dict[str, Any]:
    return {
        "alert_rules": [_shown(row) for row in services.alert_rules().values()],
        "alert_targets": list(AlertTarget.objects.all()),
        "firing": list(alerts_firing()[:MOST_FIRING]),
        "rule_form": RuleForm(initial={"is_on": True}),
        "target_form": TargetForm(),
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
    return _answer(request, form, "Alert set|It goes by this from the next look on")


@require_POST
def alert_target_add(request: HttpRequest) -> HttpResponse:
    form, said = TargetForm(request.POST), "Target added"
    if form.is_valid():
        quiet = {name: form.cleaned_data[name] or None for name in ("quiet_from", "quiet_until")}
        fields: dict[str, Any] = {**form.cleaned_data, **quiet}
        try:
            issued = services.alert_target_create(**fields, author=principal_of(request).actor)
            # The only time that the secret is shown.
            said += f"|Its secret, shown only now: {issued.secret}" if issued.secret else ""
        except Refused as refusal:
            form.refused(refusal)
    return _answer(request, form, said)


@require_POST
def alert_target(request: HttpRequest, number: int, action: str) -> HttpResponse:
    form = GoneForm(request.POST)
    if action not in ACTIONS:
        raise Http404(f"There is nothing called {action} to do with a target.")
    if form.is_valid():
        act = ACTIONS[action]
        reason = form.cleaned_data["reason"] or f"{action}, from the settings page"
        try:
            act(target=number, author=principal_of(request).actor, reason=reason)
        except Refused as refusal:
            form.refused(refusal)
    said = {"test": "A test is on its way|It is sent with the next ones", "delete": "Target deleted"}[action]
    return _answer(request, form, said)


def _answer(request: HttpRequest, form: forms.Form, said: str) -> HttpResponse:
    if form.errors:
        messages.error(request, f"Nothing was changed|{next(iter(form.errors.values()))[0]}")
    else:
        messages.success(request, said)
    return redirect("/settings#alerts")


def _shown(row: services.RuleRow) -> dict[str, Any]:
    rule, factor = row.rule, PERCENT if row.rule.unit == "share" else 1
    return {
        "rule": rule,
        "row": row,
        "threshold": f"{row.threshold * factor:g}",
        "default": f"{rule.threshold * factor:g}",
        "unit": UNITS[rule.unit],
    }
