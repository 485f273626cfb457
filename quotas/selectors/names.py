"""Things by the beginning of their name, a few at a time: what somebody types to get somewhere."""

from __future__ import annotations

from typing import NamedTuple

from quotas.models import Endpoint, Policy
from tenants.models import Tenant


class NamedPolicy(NamedTuple):
    name: str
    tenant: str | None
    place: str  # what it is attached to, in words


def tenants_named(beginning: str, most: int) -> list[Tenant]:
    rows = Tenant.objects.select_related("tier").filter(name__startswith=beginning.casefold())
    return list(rows.order_by("name")[:most])


def endpoints_named(part: str, most: int) -> list[Endpoint]:
    """By any part of the name: there are few of them."""
    return list(Endpoint.objects.filter(retired=False, name__contains=part.casefold()).order_by("name")[:most])


def policies_named(beginning: str, most: int) -> list[NamedPolicy]:
    rows = Policy.objects.filter(name__startswith=beginning.casefold()).select_related("tier", "tenant", "endpoint")
    return [
        NamedPolicy(row.name, row.tenant.name if row.tenant else None, _place(row))
        for row in rows.order_by("name")[:most]
    ]


def _place(row: Policy) -> str:
    owner = row.tier.name if row.tier else row.tenant.name if row.tenant else "everyone"
    return f"policy, {owner} × {row.scope}"
