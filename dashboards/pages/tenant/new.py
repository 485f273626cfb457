"""A new tenant with its tier and its first key: a dialog, and a page for direct links."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.text import slugify
from django.views.decorators.http import require_http_methods

from dashboards.pages.tenant.fields import TenantForm, is_part, tiers_of_people, zones
from dashboards.pages.tenant.keys import handed_out
from dashboards.viewer import principal_of
from quotas.api_keys import api_key_issue
from quotas.changes.commit import commit
from quotas.errors import LONGEST_REASON, Refused
from quotas.tenants import tenant_create
from tenants.models import Tenant, Tier

KEY_LABEL = "first key"


class NewTenantForm(TenantForm):
    name = forms.CharField(
        label="Name",
        max_length=63,
        required=False,
        help_text="In API calls and metrics. It cannot be changed later.",
        widget=forms.TextInput({"class": "input mono", "autocomplete": "off", "spellcheck": "false"}),
    )
    tier = forms.ChoiceField(label="Tier", error_messages={"required": "Choose a tier."})
    key = forms.BooleanField(label="Create its first key now", required=False, initial=True)
    reason = forms.CharField(
        label="Reason",
        max_length=LONGEST_REASON,
        required=False,
        help_text="Kept with the revision.",
        widget=forms.TextInput({"autocomplete": "off"}),
    )

    field_order = ("label", "name", "tier", "timezone", "tags", "contacts", "key", "reason")
    fields_of = {"tenant": "name"}

    def __init__(self, tiers: Sequence[Tier], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="new_%s", **kwargs)
        self.fields["tier"] = forms.ChoiceField(
            label="Tier",
            choices=[(tier.name, tier.label or tier.name) for tier in tiers],
            initial=tiers[0].name if tiers else "",
            error_messages={"required": "Choose a tier.", "invalid_choice": "This tier is gone. Choose another."},
            widget=forms.Select({"class": "select"}),
        )
        self.fields["label"].widget.attrs |= {"data-names": "new_name", "autofocus": True}
        self.order_fields(self.field_order)

    def clean(self) -> dict[str, Any]:
        """Without a name, the label's; without a reason, what is done."""
        fields: dict[str, Any] = super().clean() or {}
        fields["name"] = fields.get("name") or slugify(fields.get("label", ""))[:63].strip("-")
        if not fields["name"]:
            self.add_error("name", "Enter a label or a name.")
        fields["reason"] = fields.get("reason", "").strip() or f"Created tenant {fields['name']}."
        return fields


@require_http_methods(["GET", "HEAD", "POST"])
def tenant_new(request: HttpRequest) -> HttpResponse:
    tiers = tiers_of_people()
    form = NewTenantForm(tiers, request.POST or None)
    if form.is_bound and form.is_valid():
        try:
            row = _create(request, form.cleaned_data)
        except Refused as refused:
            form.refused(refused)
        else:
            return _created(request, row, form.cleaned_data)
    context = {"form": form, "tiers": tiers, "zones": zones()}
    template = "new_form.html" if is_part(request) else "new_page.html"
    return render(request, f"dashboards/tenant/{template}", context, status=422 if form.is_bound else 200)


def _create(request: HttpRequest, data: dict[str, Any]) -> Tenant:
    fields = {name: data[name] for name in ("name", "tier", "label", "timezone", "tags", "contacts")}
    create = partial(tenant_create, **fields, author=principal_of(request).actor, reason=data["reason"])
    commit(create)
    return Tenant.objects.select_related("tier").get(name=data["name"])


def _created(request: HttpRequest, row: Tenant, data: dict[str, Any]) -> HttpResponse:
    """The response contains the key, which is shown only once."""
    shown: dict[str, Any] = {"problem": ""}
    if data["key"]:
        author = principal_of(request).actor
        try:
            issued = api_key_issue(
                tenant=row.name, author=author, reason=data["reason"], scopes=["check", "read"], label=KEY_LABEL
            )
            shown |= handed_out(issued)
        except Refused as refused:
            shown["problem"] = refused.problems[0].sentence
    context = {"tenant": row, **shown}
    template = "created.html" if is_part(request) else "created_page.html"
    return render(request, f"dashboards/tenant/{template}", context)
