"""Alerts on the settings page, as they are shown and typed."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboards.forms import ReasonedForm
from quotas.alerts import settings as services
from quotas.alerts.rules import RULES
from quotas.alerts.settings import alerts_firing
from quotas.models import AlertTarget
from quotas.models.alert import TargetKind

PERCENT = 100
UNITS = {"share": "%", "seconds": "s", "enforcers": "of them"}
MOST_FIRING = 20


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


def alerts_shown(rule_form: RuleForm | None = None, target_form: TargetForm | None = None) -> dict[str, Any]:
    """With a form that was refused, as it was typed."""
    return {
        "alert_rules": [_shown(row) for row in services.alert_rules().values()],
        "alert_targets": list(AlertTarget.objects.all()),
        "firing": list(alerts_firing()[:MOST_FIRING]),
        "rule_form": rule_form or RuleForm(initial={"is_on": True}),
        "target_form": target_form or TargetForm(),
    }


def _shown(row: services.RuleRow) -> dict[str, Any]:
    rule, factor = row.rule, PERCENT if row.rule.unit == "share" else 1
    return {
        "rule": rule,
        "row": row,
        "threshold": f"{row.threshold * factor:g}",
        "default": f"{rule.threshold * factor:g}",
        "unit": UNITS[rule.unit],
    }
