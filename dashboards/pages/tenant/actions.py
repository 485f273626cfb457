"""Suspending and resuming a tenant, and issuing and revoking its API keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboards.forms import ReasonedForm, outcome_toast
from dashboards.viewer import principal_of
from quotas.api_keys import api_key_issue, api_key_revoke
from quotas.changes.commit import commit
from quotas.errors import Refused
from quotas.tenants import tenant_resume, tenant_suspend
from tenants.scope import tenant_get


class KeyForm(ReasonedForm):
    label = forms.CharField(label="Purpose", max_length=200)
    scopes = forms.MultipleChoiceField(
        label="Permissions",
        choices=[("check", "check requests"), ("read", "read its own limits and usage")],
        widget=forms.CheckboxSelectMultiple,
        initial=["check"],
        error_messages={"required": "Choose at least one permission."},
    )


@require_POST
def suspend(request: HttpRequest, name: str) -> HttpResponse:
    return _switched(request, name, tenant_suspend, "suspend")


@require_POST
def resume(request: HttpRequest, name: str) -> HttpResponse:
    return _switched(request, name, tenant_resume, "resume")


def _switched(request: HttpRequest, name: str, act: Callable[..., object], what: str) -> HttpResponse:
    row = tenant_get(principal_of(request), name)
    form = ReasonedForm(request.POST)
    if form.is_valid():
        author = principal_of(request).actor
        try:
            outcome = commit(partial(act, name=row.name, author=author, reason=form.cleaned_data["reason"]))
        except Refused as refused:
            form.refused(refused)
        else:
            messages.success(request, outcome_toast(outcome))
            return _back(name)
    context = {"tenant": row, "switch_form": form, "what": what}
    return render(request, "dashboards/tenant/suspend_form.html", context, status=422)


@require_POST
def key_issue(request: HttpRequest, name: str) -> HttpResponse:
    """The response contains the key, which is shown only once."""
    row = tenant_get(principal_of(request), name)
    form = KeyForm(request.POST)
    issued = None
    if form.is_valid():
        data = form.cleaned_data
        try:
            issued = api_key_issue(
                tenant=row.name,
                author=principal_of(request).actor,
                reason=data["reason"],
                scopes=data["scopes"],
                label=data["label"],
            )
        except Refused as refused:
            form.refused(refused)
    context = {"tenant": row, "key_form": form, "issued": issued}
    return render(request, "dashboards/tenant/key_form.html", context, status=200 if issued else 422)


@require_POST
def key_revoke(request: HttpRequest, name: str, key_id: str) -> HttpResponse:
    row = tenant_get(principal_of(request), name)
    form = ReasonedForm(request.POST)
    if form.is_valid() and row.api_keys.filter(key_id=key_id).exists():
        author, reason = principal_of(request).actor, form.cleaned_data["reason"]
        api_key_revoke(key_id=key_id, author=author, reason=reason)
        messages.success(request, f"Key {key_id} revoked|Requests with it are refused")
        return _back(name, "keys")
    context = {"tenant": row, "revoke_form": form, "key_id": key_id}
    return render(request, "dashboards/tenant/key_revoke_form.html", context, status=422)


def _back(name: str, part: str = "") -> HttpResponse:
    place = reverse("dashboards:tenant", args=[name])
    return HttpResponse(headers={"HX-Redirect": f"{place}#{part}" if part else place})
