"""What a tenant is given when it is made or edited, checked."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from headroom_edge.algorithms.base import shown
from headroom_edge.algorithms.calendar_quota import known_zones
from headroom_edge.keys import OWN_TENANT
from quotas.errors import one_line, refuse
from quotas.policies.tier import LONGEST_LABEL

TAG: Final = "[a-z0-9][a-z0-9_.-]{0,39}"
MOST_TAGS: Final = 20
MOST_CONTACTS: Final = 10
LONGEST_CONTACT: Final = 254

_TAG = re.compile(TAG)


def check_tier_fits(name: str, tier: str) -> None:
    """Headroom's own tier is for its own tenant, and for nobody else."""
    if tier == OWN_TENANT and name != OWN_TENANT:
        message = f"tier {tier} has the limits on Headroom's own pages and API; choose another tier for {name}"
        raise refuse("tier", "own", message)
    if name == OWN_TENANT and tier != OWN_TENANT:
        message = f"{name} is Headroom's own tenant and stays on its tier; leave it out"
        raise refuse("name", "own", message)


@dataclass(frozen=True, slots=True)
class NewTenant:
    name: str
    tier: str
    label: str = ""
    timezone: str = "UTC"
    tags: tuple[str, ...] = ()
    contacts: tuple[str, ...] = ()
    priority: str = ""  # the highest of its requests; empty: its tier's


def label_of(text: str) -> str:
    return one_line("label", text.strip(), LONGEST_LABEL)


def timezone_of(name: str) -> str:
    if name not in known_zones():
        raise refuse("timezone", "timezone", f"timezone {name!r} is unknown; use an IANA name such as Europe/Berlin")
    return name


def tags_of(texts: Iterable[str]) -> list[str]:
    """Each once, in order; capital letters become small ones."""
    found = sorted({text.strip().lower() for text in texts} - {""})
    wrong = next((tag for tag in found if not _TAG.fullmatch(tag)), None)
    if wrong is not None:
        message = (
            f"a tag cannot be {shown(wrong)}; use up to 40 letters, digits, - _ and ., starting with a letter or digit"
        )
        raise refuse("tags", "tag", message)
    _check_count("tags", found, MOST_TAGS)
    return found


def contacts_of(texts: Iterable[str]) -> list[str]:
    """Mail addresses, each once, in the order given."""
    found = list(dict.fromkeys(text.strip() for text in texts if text.strip()))
    for address in found:
        _check_address(address)
    _check_count("contacts", found, MOST_CONTACTS)
    return found


def _check_address(address: str) -> None:
    try:
        validate_email(address)
    except ValidationError:
        message = f"contact {shown(address)} is not a mail address; write one such as api@example.com"
        raise refuse("contacts", "contact", message) from None
    if len(address) > LONGEST_CONTACT:
        raise refuse("contacts", "contact", f"a contact has {len(address)} characters; use at most {LONGEST_CONTACT}")


def _check_count(field: str, found: Collection[str], most: int) -> None:
    if len(found) > most:
        raise refuse(field, "too_many", f"there are {len(found)} {field}; the most is {most}")
