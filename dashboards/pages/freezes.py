"""The freezes on the settings page: the list, and the form to set one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.utils import timezone

from dashboards.forms import MomentField, ReasonedForm, in_zone
from quotas.changes.freeze import PASSING_ROLES, freeze_state, passers
from quotas.models import Freeze

MOST: Final = 10


class FreezeForm(ReasonedForm):
    start = MomentField(label="From", required=False, help_text="Empty: now")
    end = MomentField(label="Until")
    roles = forms.MultipleChoiceField(
        label="Roles that may pass",
        required=False,
        choices=[(role, role) for role in PASSING_ROLES],
        widget=forms.CheckboxSelectMultiple,
    )
    members = forms.CharField(
        label="Accounts that may pass", max_length=2_000, required=False, help_text="Names, separated by commas"
    )
    zone = forms.CharField(required=False, widget=forms.HiddenInput({"data-zone-name": ""}))

    def asked(self) -> dict[str, Any]:
        data = self.cleaned_data
        return {
            "start": in_zone(data["start"], data["zone"]),
            "end": in_zone(data["end"], data["zone"]),
            "roles": data["roles"],
            "members": [name for text in data["members"].split(",") if (name := text.strip())],
            "reason": data["reason"],
        }


@dataclass(frozen=True, slots=True)
class FreezeRow:
    row: Freeze
    state: str
    passers: str

    @property
    def can_be_lifted(self) -> bool:
        return self.state in ("active", "upcoming")


def freezes_shown(form: FreezeForm | None = None) -> dict[str, Any]:
    now = timezone.now()
    rows = [FreezeRow(row, freeze_state(row, now), passers(row)) for row in Freeze.objects.all()[:MOST]]
    return {"freezes": rows, "freeze_form": form or FreezeForm(auto_id="freeze_%s")}
