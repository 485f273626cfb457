"""What is done about alerts on the settings page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from dashboards.alert_forms import PERCENT, RuleForm, TargetForm
from dashboards.pages.settings import settings_page
from dashboards.viewer import principal_of
from quotas.alerts import settings as services
from quotas.alerts.rules import RULES
from quotas.errors import Refused

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
    return _done(request, "Alert set|It goes by this from the next look on")


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
    if form.errors:
        return settings_page(request, target_form=form)
    return _done(request, said)


@require_POST
def alert_target(request: HttpRequest, number: int, action: str) -> HttpResponse:
    if action not in ACTIONS:
        raise Http404(f"There is nothing called {action} to do with a target.")
    try:
        ACTIONS[action](target=number, author=principal_of(request).actor, reason=f"{action}, from the settings page")
    except Refused as refusal:
        messages.error(request, f"Nothing was changed|{refusal.problems[0].message}")
        return redirect("/settings#alerts")
    said = {"test": "A test is on its way|It is sent with the next ones", "delete": "Target deleted"}[action]
    return _done(request, said)


def _done(request: HttpRequest, said: str) -> HttpResponse:
    messages.success(request, said)
    return redirect("/settings#alerts")
