"""Forms of the policy pages: what to list, where a new policy goes, rename and delete."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms

from dashboards.forms import PageForm, ReasonedForm
from quotas.matrix.queries import OF_TENANT
from quotas.policies.spec import CARRIES, EVERYWHERE
from tenants.models import Tier


class PlaceForm(PageForm):
    """To whom and to what a new policy is attached."""

    owner = forms.ChoiceField(
        label="For",
        choices=[("tenant", "one tenant"), ("tier", "a tier"), ("everyone", "everyone together")],
        widget=forms.RadioSelect,
        initial="tenant",
    )
    tenant = forms.CharField(label="Tenant", max_length=63, required=False)
    tier = forms.CharField(label="Tier", max_length=63, required=False, widget=forms.Select)
    endpoint = forms.CharField(
        label="Endpoint", max_length=140, initial=EVERYWHERE, help_text="A name, service:* (everyone only) or * for all"
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = Tier.objects.filter(retired=False).order_by("number").values_list("name", flat=True)
        self.fields["tier"].widget.choices = [(name, name) for name in names]

    def clean(self) -> dict[str, Any]:
        found = self.cleaned_data
        owner = found.get("owner", "")
        if owner in ("tenant", "tier") and not found.get(owner):
            self.add_error(owner, f"Enter the {owner} that the policy is for.")
        if owner != "everyone" and found.get("endpoint", "").endswith(":*"):
            self.add_error("endpoint", "A whole service is limited for everyone only. Choose one of its endpoints.")
        return found

    @property
    def key(self) -> str:
        """As `quotas.matrix.queries.Cell.key`."""
        found = self.cleaned_data
        owner = {"tenant": OF_TENANT + found["tenant"], "tier": found["tier"]}.get(found["owner"], "")
        return f"{owner}/{found['endpoint']}"


class RenameForm(ReasonedForm):
    to = forms.CharField(label="New name", max_length=63)
    force = forms.BooleanField(required=False)

    fields_of: ClassVar[dict[str, str]] = {"name": "to"}


class DeleteForm(ReasonedForm):
    carry = forms.ChoiceField(label="Current usage", choices=[(carry, carry) for carry in CARRIES], required=False)
    force = forms.BooleanField(required=False)

    def clean_carry(self) -> str:
        return str(self.cleaned_data["carry"] or CARRIES[0])
