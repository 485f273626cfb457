"""The fields of a tenant that people edit, in the forms of a new one and of its settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from django import forms
from django.db.models import Count, Q
from django.http import HttpRequest

from dashboards.forms import PageForm
from headroom_edge.algorithms.calendar_quota import known_zones
from headroom_edge.keys import OWN_TENANT
from quotas.errors import Refused
from quotas.policies.tier import LONGEST_LABEL
from quotas.tenants.fields import contacts_of, tags_of
from quotas.tenants.stranded import STRANDED_CHOICES, StrandedChoice
from tenants.models import Tier

_BETWEEN: Final = re.compile(r"[\s,;]+")


class TenantForm(PageForm):
    label = forms.CharField(
        label="Label",
        max_length=LONGEST_LABEL,
        required=False,
        help_text="What people read.",
        widget=forms.TextInput({"autocomplete": "off"}),
    )
    timezone = forms.CharField(
        label="Time zone",
        max_length=64,
        initial="UTC",
        help_text="Daily and monthly quotas renew at midnight here.",
        widget=forms.TextInput({"list": "zones", "autocomplete": "off", "spellcheck": "false"}),
        error_messages={"required": "Choose a time zone, for example UTC."},
    )
    tags = forms.CharField(
        label="Tags",
        required=False,
        max_length=1_000,
        widget=forms.TextInput({"data-tags": "", "autocomplete": "off", "placeholder": "Add a tag"}),
        help_text="Separated by spaces.",
    )
    contacts = forms.CharField(
        label="Contacts",
        required=False,
        max_length=3_000,
        widget=forms.Textarea({"rows": 2, "autocomplete": "off", "spellcheck": "false"}),
        help_text="Mail addresses, one in each line.",
    )

    def clean_tags(self) -> list[str]:
        return _read(tags_of, self.cleaned_data["tags"])

    def clean_contacts(self) -> list[str]:
        return _read(contacts_of, self.cleaned_data["contacts"])


def _read(check: Callable[[Iterable[str]], list[str]], text: str) -> list[str]:
    try:
        return check(_BETWEEN.split(text))
    except Refused as refused:
        raise forms.ValidationError([problem.sentence for problem in refused.problems]) from None


class StrandedField(forms.ChoiceField):
    """What a move does about overrides that change a limit which the new tier lacks. Not chosen: it is refused."""

    def __init__(self) -> None:
        super().__init__(required=False, choices=[(choice, choice) for choice in STRANDED_CHOICES])

    def clean(self, value: Any) -> StrandedChoice:
        return stranded_choice({STRANDED: super().clean(value)})


STRANDED: Final = "stranded_overrides"


def stranded_choice(posted: Mapping[str, Any]) -> StrandedChoice:
    return next((choice for choice in STRANDED_CHOICES if choice == posted.get(STRANDED)), "refuse")


def tiers_of_people() -> list[Tier]:
    """Each with `count`, its tenants that are not archived; without Headroom's own tier. The largest is first."""
    present = Count("tenants", filter=Q(tenants__archived_at=None))
    return list(
        Tier.objects.filter(retired=False).exclude(name=OWN_TENANT).annotate(count=present).order_by("-count", "name")
    )


def zones() -> list[str]:
    return sorted(known_zones())


def is_part(request: HttpRequest) -> bool:
    """Whether only a part of a page is wanted, for a dialog."""
    return request.headers.get("HX-Request") == "true"
