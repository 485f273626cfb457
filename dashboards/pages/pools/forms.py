"""The forms of a pool's own numbers, of new pools and of new members."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Final

from django import forms

from dashboards.forms import RateField, ReasonedForm
from headroom_edge.algorithms.base import counted
from headroom_edge.algorithms.bucket import MOST_DECIMALS, MOST_DIGITS
from headroom_edge.keys import OWN_TENANT
from quotas.changes.impact import Impact, OwnedCut
from quotas.models import Endpoint
from quotas.policies.spec import EVERYWHERE
from tenants.models import Tier

OWNERS: Final = [("", "Everyone together"), ("tier", "Each tenant of a tier"), ("tenant", "One tenant")]
TIMES: Final = re.compile(r"\b(shorten|lengthen) per\b")
LEAST: Final = "0.000001"  # above 0, with as many decimals as an amount may have
PLACES: Final = "pool-places"  # the list of suggested endpoints
MOST_SUGGESTED: Final = 200
MOST_SAID: Final = 10  # limits that a confirmation lists


def _whole(label: str, least: int, required: str = "") -> forms.IntegerField:
    """`required`: what is said when it is left empty; empty: it may be."""
    messages = {
        "required": required,
        "invalid": f"{label} must be a whole number, such as {max(least, 20)}.",
        "min_value": f"{label} must be at least {least}.",
    }
    return forms.IntegerField(label=label, min_value=least, required=bool(required), error_messages=messages)


def _amount(label: str, least: str, too_low: str, required: str = "") -> forms.DecimalField:
    """`too_low`: what is said of less than the least."""
    messages = {
        "required": required,
        "invalid": f"{label} must be a number, such as 20 or 4.2.",
        "min_value": too_low,
        "max_decimal_places": f"{label} has more than {MOST_DECIMALS} decimals. Round it.",
        "max_digits": f"{label} has too many digits. Round it.",
        "max_whole_digits": f"{label} is too high.",
    }
    return forms.DecimalField(
        label=label,
        min_value=Decimal(least),
        max_digits=MOST_DIGITS,
        decimal_places=MOST_DECIMALS,
        required=bool(required),
        error_messages=messages,
    )


def _text(label: str, longest: int, required: str = "", **more: Any) -> forms.CharField:
    messages = {"required": required, "max_length": f"Shorten it to {longest} characters."}
    return forms.CharField(label=label, max_length=longest, required=bool(required), error_messages=messages, **more)


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What has to be confirmed before it is saved."""

    impact: Impact

    @property
    def words(self) -> str:
        whom = counted(self.impact.hurt_count, "tenant", "tenants")
        does = f"starts to limit {whom}" if self.impact.is_new_only else f"leaves {whom} less"
        return f"This {does}{self._place}."

    @property
    def _place(self) -> str:
        places = {cut.endpoint for cut in self.impact.cuts}
        if len(places) > 1:
            return f" on {len(places)} endpoints"
        return " on all endpoints" if EVERYWHERE in places else f" on {next(iter(places))}"

    @property
    def listed(self) -> Sequence[OwnedCut]:
        return self.impact.cuts[:MOST_SAID]

    @property
    def more(self) -> int:
        return self.impact.cut_count - len(self.listed)


class OwnedForm(ReasonedForm):
    """Asks for the tier or the tenant that was chosen: without it, the limit would be for everyone."""

    confirmation: Confirmation | None = None

    asked: ClassVar[dict[str, str]] = {"tier": "Choose a tier.", "tenant": "Enter a tenant."}

    tier = forms.ChoiceField(
        label="Tier", required=False, error_messages={"invalid_choice": "This tier is gone. Choose another."}
    )
    tenant = _text("Tenant", 63)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["tier"].choices = _tier_choices()  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any] | None:
        data = super().clean()
        kind = self.cleaned_data.get("owner", "")
        if kind in self.asked and kind not in self.errors and not self.cleaned_data.get(kind):
            self.add_error(kind, self.asked[kind])
        return data


class PoolForm(ReasonedForm):
    rate = RateField(label="Rate", error_messages={"required": "Enter a rate."})
    burst = _whole("Burst", 1)
    reserve = _whole("Reserve", 0)
    force = forms.BooleanField(label="Apply anyway: I have reviewed these cuts", required=False)

    field_order: Any = ("rate", "burst", "reserve", "force", "reason")
    hints: ClassVar[dict[str, str]] = {
        "rate": "Such as 100, or 4.2/10s. All members together.",
        "burst": "Units at once. Empty: twice the rate.",
        "reserve": "Units that are never lent. Set it to the sum of all members' bursts, and guaranteed requests never "
        "wait.",
    }

    def said(self, message: str) -> str:
        """The form has no field for the time: it is part of the rate."""
        message = super().said(message).replace("so long a per", "so long a time").replace("× per", "× its time")
        message = message.removesuffix(", or use fixed_window")  # a pool cannot be one
        return TIMES.sub(lambda found: f"{found[1]} the time of the rate, such as 100/10s", message)

    @property
    def fields_wanted(self) -> dict[str, Any]:
        names = ("rate", "burst", "reserve")
        return {name: self.cleaned_data[name] for name in names if self.cleaned_data.get(name) is not None}


class NewPoolForm(OwnedForm, PoolForm):
    name = _text("Name", 63, "Enter a name.")
    owner = forms.ChoiceField(
        label="For",
        choices=OWNERS,
        required=False,
        error_messages={"invalid_choice": "Choose everyone, a tier or a tenant."},
    )
    endpoint = _text("On", 128, "Enter where the pool is, such as service:operation; * is everywhere.", initial="*")
    mode = forms.ChoiceField(
        label="Mode",
        choices=[("enforce", "Enforce"), ("shadow", "Shadow: count, deny nobody")],
        error_messages=dict.fromkeys(("required", "invalid_choice"), "Choose enforce or shadow."),
    )

    field_order = ("name", "owner", "tier", "tenant", "endpoint", "rate", "burst", "reserve", "mode", "force", "reason")
    hints: ClassVar[dict[str, str]] = {
        **PoolForm.hints,
        "name": "Lower case letters, digits, - _ and .",
        "owner": "Everyone: all tenants share one pool. Tier: each tenant of the tier gets its own.",
        "endpoint": "service:operation, service:* (for everyone only) or *",
        "mode": "A new pool can be tried in shadow first, together with its members.",
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["endpoint"].widget.attrs["list"] = PLACES

    @property
    def places(self) -> list[str]:
        """Suggested where it asks for the endpoint."""
        names = Endpoint.objects.filter(retired=False).order_by("name").values_list("name", flat=True)
        return ["*", *names[:MOST_SUGGESTED]]


class MemberForm(OwnedForm):
    owner = forms.ChoiceField(
        label="Who",
        choices=[("tenant", "One tenant"), ("tier", "Each tenant of a tier")],
        error_messages=dict.fromkeys(("required", "invalid_choice"), "Choose a tenant or a tier."),
    )
    scope = _text("On", 128)
    assured = _amount(
        "Guaranteed", "0", "Guaranteed must be at least 0.", "Enter what is guaranteed. 0: it only borrows."
    )
    ceiling = _amount("Ceiling", LEAST, "Ceiling must be above 0.")
    force = forms.BooleanField(label="Apply anyway: I have reviewed these cuts", required=False)

    fields_of: ClassVar[dict[str, str]] = {"endpoint": "scope", "burst": "assured", "ceiling_burst": "ceiling"}
    field_order = ("owner", "tenant", "tier", "scope", "assured", "ceiling", "force", "reason")
    hints: ClassVar[dict[str, str]] = {
        "assured": "The member can always use this much. 0: it only borrows.",
        "ceiling": "The most that it can reach by borrowing. Empty: as much as the pool lends.",
        "scope": "Empty: where the pool is.",
    }


def _tier_choices() -> list[tuple[str, str]]:
    names = Tier.objects.filter(retired=False).exclude(name=OWN_TENANT).order_by("name").values_list("name", flat=True)
    return [("", "Choose a tier"), *((name, name) for name in names)]
