"""Find rows by name or number, or refuse an unknown one; and the numbers of new rows."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from django.db.models import Model, QuerySet

from quotas.errors import Refused, refuse
from quotas.models import Endpoint
from tenants.models import Tenant, Tier

R = TypeVar("R", bound=Model)


def find_tier(name: str) -> Tier:
    row = Tier.objects.filter(name=name, retired=False).first()
    if row is None:
        raise refuse("tier", "unknown", f"there is no tier {name}; create it, or correct the name")
    return row


def find_tenant(name: str) -> Tenant:
    row = Tenant.objects.select_related("tier").filter(name=name).first()
    if row is None:
        raise refuse("tenant", "unknown", f"there is no tenant {name}; create it, or correct the name")
    return row


def find_active_tenant(name: str) -> Tenant:
    """For writes: an archived tenant has to be restored first."""
    row = find_tenant(name)
    if row.archived_at is not None:
        raise _archived(row)
    return row


def find_active_tenants(names: Collection[str]) -> list[Tenant]:
    """Many at once, by name; refused if one is unknown or archived."""
    rows = list(Tenant.objects.select_related("tier").filter(name__in=names).order_by("name"))
    if unknown := sorted({*names} - {row.name for row in rows}):
        find_tenant(unknown[0])
    if (archived := next((row for row in rows if row.archived_at is not None), None)) is not None:
        raise _archived(archived)
    return rows


def _archived(row: Tenant) -> Refused:
    return refuse("tenant", "archived", f"tenant {row.name} is archived; restore it first")


def find_endpoint(name: str) -> Endpoint:
    row = Endpoint.objects.filter(name=name, retired=False).first()
    if row is None:
        raise refuse("endpoint", "unknown", f"there is no endpoint {name}; register it, or correct the name")
    return row


def find_numbered(rows: QuerySet[R], number: int, what: str) -> R:
    """`rows` may lock what is found: `Change.objects.select_for_update()`."""
    row = rows.filter(pk=number).first()
    if row is None:
        raise refuse(what, "unknown", f"there is no {what} {number}; correct the number")
    return row


def next_number(newest: int | None, end: int, what: str) -> int:
    number = (newest or 0) + 1
    if number >= end:
        raise refuse("name", "exhausted", f"there are {number - 1:,} {what}s, the maximum; reuse one")
    return number
