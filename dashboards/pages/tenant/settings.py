"""A tenant's settings: label, zone, tags, contacts, priority and tier; suspend and archive."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from access.roles import may
from dashboards.conflicts import WatchedForm
from dashboards.forms import HIGHEST_PRIORITY_CHOICES, ReasonedForm, outcome_toast
from dashboards.pages.tenant.fields import StrandedField, TenantForm, stranded_choice, tiers_of_people, zones
from dashboards.viewer import principal_of
from quotas.changes.commit import commit
from quotas.changes.snapshot import TENANT, key_of
from quotas.changes.turn import turn
from quotas.errors import LONGEST_REASON, Refused
from quotas.tenants import archiving_of, tenant_move, tenant_update
from quotas.tenants.archive import archive_objection, archive_revision
from quotas.tenants.moves import MovePreview, move_preview
from tenants.models import Tenant, Tier
from tenants.scope import tenant_get

FIELDS = ("label", "timezone", "tags", "contacts", "priority")


class SettingsForm(TenantForm, WatchedForm):
    priority = forms.ChoiceField(label="Highest priority", choices=HIGHEST_PRIORITY_CHOICES, required=False)
    tier = forms.ChoiceField(error_messages={"invalid_choice": "This tier is gone. Choose another."})
    force = forms.BooleanField(required=False)
    stranded_overrides = StrandedField()
    reason = forms.CharField(
        max_length=LONGEST_REASON,
        error_messages={"required": "Enter a reason. It is saved with the revision."},
        widget=forms.TextInput({"autocomplete": "off", "placeholder": "Reason, kept with the revision"}),
    )

    watched = (*FIELDS, "tier")

    def __init__(self, row: Tenant, tiers: Sequence[Tier], *args: Any, **kwargs: Any) -> None:
        initial = _values(row)
        super().__init__(*args, initial=initial, **kwargs)
        names = dict.fromkeys([*(tier.name for tier in tiers), row.tier.name])
        self.fields["tier"] = forms.ChoiceField(choices=[(name, name) for name in names])
        self.watch(initial, key_of(TENANT, row.name))


def _values(row: Tenant) -> dict[str, str]:
    return {
        "label": row.label,
        "timezone": row.timezone,
        "tags": " ".join(row.tags),
        "contacts": "\n".join(row.contacts),
        "priority": row.priority,
        "tier": row.tier.name,
    }


@require_http_methods(["GET", "HEAD", "POST"])
def tenant_settings(request: HttpRequest, name: str) -> HttpResponse:
    row = tenant_get(principal_of(request), name)
    tiers = tiers_of_people()
    form = SettingsForm(row, tiers, request.POST or None)
    if form.is_bound and not form.conflict and form.is_valid():
        try:
            toasts = _save(request, row, form)
        except Refused as refused:
            form.refused(refused)
            row = tenant_get(principal_of(request), name)  # on a conflict it is not what it was
        else:
            for toast in toasts or ["No changes|The values were the same before"]:
                messages.success(request, toast)
            return redirect("dashboards:tenant-settings", name)
    wanted = str(form["tier"].value())
    context = {
        "tenant": row,
        "form": form,
        "tiers": tiers,
        "zones": zones(),
        **_move(row, wanted),
        "wanted": wanted,
        "choice": stranded_choice(request.POST),
        "switch_form": ReasonedForm(auto_id="switch_%s"),
        "archive_form": ReasonedForm(auto_id="archive_%s"),
        "restore_form": ReasonedForm(auto_id="restore_%s"),
        "stops": archiving_of(row),
        "objection": archive_objection(row),
        "archived_in": archive_revision(row) if row.archived_at else None,
        "may_save": may(principal_of(request), "dashboards:tenant-settings", "POST"),
    }
    status = 409 if form.conflict else 422 if form.is_bound else 200
    return render(request, "dashboards/tenant/settings.html", context, status=status)


def _save(request: HttpRequest, row: Tenant, form: SettingsForm) -> list[str]:
    """All of it or, if a part is refused, nothing. The move may have to wait for an approver."""
    data = form.cleaned_data
    said = {"author": principal_of(request).actor, "reason": data["reason"]}
    toasts = []
    with turn():
        form.check(_values(tenant_get(principal_of(request), row.name)))
        if data["tier"] != row.tier.name:
            permits = {"force": data["force"], "stranded_overrides": data["stranded_overrides"]}
            move = partial(tenant_move, name=row.name, tier=data["tier"], **permits, **said)
            toasts.append(outcome_toast(commit(move)))
        fields = {field: data[field] for field in FIELDS if data[field] != getattr(row, field)}
        if fields:
            toasts.append(outcome_toast(commit(partial(tenant_update, name=row.name, **fields, **said))))
    return toasts


@require_safe
def tenant_move_preview(request: HttpRequest, name: str) -> HttpResponse:
    """What another tier would change. Nothing is saved."""
    row = tenant_get(principal_of(request), name)
    wanted = request.GET.get("tier", "")
    context: dict[str, Any] = {"tenant": row, "wanted": wanted, **_move(row, wanted)}
    return render(request, "dashboards/tenant/move_preview.html", context)


def _move(row: Tenant, tier: str) -> dict[str, Any]:
    """What the move changes, and the overrides in its way; nothing: it stays where it is."""
    if tier == row.tier.name:
        return {}
    try:
        preview: MovePreview = move_preview(names=[row.name], tier=tier)
    except Refused:
        return {}  # it is archived, or the tier is gone; the form says so when it is sent
    return {"moved": next(iter(preview.moves), None), "stranded": preview.stranded}
