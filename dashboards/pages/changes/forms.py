"""The forms of the page of changes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from django import forms

from dashboards.forms import MomentField, ReasonedForm, in_zone
from quotas.models import Change


class ForcedForm(ReasonedForm):
    force = forms.BooleanField(label="I know that this takes something away", required=False)
    emergency = forms.BooleanField(label="It is an emergency: wait for nobody's approval", required=False)


class StartForm(ForcedForm):
    mode = forms.ChoiceField(
        label="How",
        choices=[
            ("shadow", "In shadow: judged beside the live limits, denies nobody"),
            ("canary", "As a canary: for a share of the tenants"),
            ("scheduled", "At a time: for all"),
        ],
    )
    share_percent = forms.FloatField(
        label="Share of tenants", required=False, min_value=0.1, max_value=99.9, initial=10
    )
    at = MomentField(label="At", required=False)
    zone = forms.CharField(required=False, widget=forms.HiddenInput({"data-zone-name": ""}))

    fields_of: ClassVar[dict[str, str]] = {"share": "share_percent"}

    def moment(self) -> datetime | None:
        return in_zone(self.cleaned_data.get("at"), self.cleaned_data.get("zone", ""))

    def asked(self) -> dict[str, Any]:
        """What this way of starting takes, and nothing else."""
        mode = self.cleaned_data["mode"]
        if mode == "canary":
            return {"share_percent": self.cleaned_data.get("share_percent")}
        return {"at": self.moment()} if mode == "scheduled" else {}


class BypassForm(ReasonedForm):
    scope = forms.ChoiceField(
        label="Of",
        choices=[("tenant", "a tenant"), ("endpoint", "an endpoint"), ("limit", "a limit"), ("all", "everything")],
    )
    name = forms.CharField(label="Name", required=False, max_length=128)
    duration = forms.ChoiceField(
        label="For", choices=[("15m", "15 minutes"), ("1h", "an hour"), ("4h", "4 hours"), ("1d", "a day")]
    )


def forms_of(row: Change) -> dict[str, Any]:
    """Blank ones, for whoever looks at the change."""
    return {
        "approve": ReasonedForm(auto_id=f"approve-{row.pk}-%s"),
        "promote": ForcedForm(auto_id=f"promote-{row.pk}-%s"),
        "drop": ReasonedForm(auto_id=f"drop-{row.pk}-%s"),
    }
