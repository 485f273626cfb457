"""Writes tiers and tenants: create, update, move, suspend, resume."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Unpack

from headroom_edge.algorithms.calendar_quota import known_zones
from quotas.changes.draft import Permits, draft
from quotas.changes.snapshot import TENANT, TIER, Draft, key_of
from quotas.errors import one_line, read, refuse
from quotas.lookups import find_tenant, find_tier
from quotas.models import Revision
from quotas.policies.carry_over import hand_over_tier
from quotas.policies.spec import Carry
from quotas.policies.tier import LONGEST_DESCRIPTION, LONGEST_LABEL, DeclaredTier
from quotas.policies.validate import tenant_name, tier_name
from tenants.models import Tenant, Tier


@dataclass(frozen=True, slots=True)
class NewTenant:
    name: str
    tier: str
    label: str = ""
    timezone: str = "UTC"


def tier_create(*, name: str, author: str, reason: str, label: str = "", description: str = "") -> Tier:
    with draft(action="tier_create", author=author, reason=reason) as opened:
        if Tier.objects.filter(name=name).exists():
            raise refuse("name", "taken", f"tier {name} already exists; choose another name")
        return write_tier(opened, DeclaredTier(name, label, description))


def write_tier(opened: Draft, tier: DeclaredTier) -> Tier:
    return write_tiers(opened, [tier])[0]


def write_tiers(opened: Draft, tiers: Sequence[DeclaredTier]) -> list[Tier]:
    """Creates those that do not exist, and gives the others what is said of them."""
    for tier in tiers:
        read(tier_name, tier.name)
        one_line("label", tier.label or "", LONGEST_LABEL)
        one_line("description", tier.description or "", LONGEST_DESCRIPTION)
    opened.touch(*(key_of(TIER, tier.name) for tier in tiers))
    present = {row.name: row for row in Tier.objects.filter(name__in=[tier.name for tier in tiers])}
    new = [
        Tier(name=tier.name, label=tier.label or "", description=tier.description or "")
        for tier in tiers
        if tier.name not in present
    ]
    for tier in tiers:
        if row := present.get(tier.name):
            row.label = row.label if tier.label is None else tier.label
            row.description = row.description if tier.description is None else tier.description
    Tier.objects.bulk_update(present.values(), ["label", "description"])
    return [*Tier.objects.bulk_create(new), *present.values()]


def tenant_create(*, name: str, tier: str, author: str, reason: str, label: str = "", timezone: str = "UTC") -> Tenant:
    new = NewTenant(name, tier, label, timezone)
    return tenants_create(tenants=[new], author=author, reason=reason)[0]


def tenants_create(*, tenants: Iterable[NewTenant], author: str, reason: str) -> list[Tenant]:
    """Creates all of them in one revision, or none."""
    wanted = list(tenants)
    with draft(action="tenant_create", author=author, reason=reason) as opened:
        tiers = {tier.name: tier for tier in Tier.objects.all()}
        _check_new(wanted, tiers.keys())
        opened.touch(*(key_of(TENANT, new.name) for new in wanted))
        rows = [Tenant(name=new.name, tier=tiers[new.tier], label=new.label, timezone=new.timezone) for new in wanted]
        return Tenant.objects.bulk_create(rows, batch_size=5_000)


def tenant_update(
    *, name: str, author: str, reason: str, label: str | None = None, timezone: str | None = None
) -> Revision | None:
    with draft(action="tenant_update", author=author, reason=reason) as opened:
        tenant = _tenant_to_change(opened, name)
        tenant.label = tenant.label if label is None else _label(label)
        tenant.timezone = tenant.timezone if timezone is None else _timezone(timezone)
        tenant.save(update_fields=["label", "timezone"])
    return opened.revision


def tenant_move(
    *, name: str, tier: str, author: str, reason: str, carry: Carry = "keep", **permits: Unpack[Permits]
) -> Revision | None:
    """Moves a tenant to another tier. `carry` says what becomes of the quota it has used."""
    with draft(action="tenant_move", author=author, reason=reason, carry=carry, **permits) as opened:
        tenant = _tenant_to_change(opened, name)
        target = find_tier(tier)
        if target != tenant.tier:
            hand_over_tier(opened, tenant, target)
    return opened.revision


def tenant_suspend(*, name: str, author: str, reason: str) -> Revision | None:
    """Denies every request of the tenant, with the reason `suspended`, until it is resumed."""
    return _set_suspended("tenant_suspend", name, author, reason, is_suspended=True)


def tenant_resume(*, name: str, author: str, reason: str) -> Revision | None:
    return _set_suspended("tenant_resume", name, author, reason, is_suspended=False)


def _tenant_to_change(opened: Draft, name: str) -> Tenant:
    tenant = find_tenant(name)
    opened.touch(key_of(TENANT, name))
    return tenant


def _set_suspended(action: str, name: str, author: str, reason: str, *, is_suspended: bool) -> Revision | None:
    with draft(action=action, author=author, reason=reason) as opened:
        tenant = _tenant_to_change(opened, name)
        if tenant.suspended != is_suspended:
            tenant.suspended = is_suspended
            tenant.suspended_reason = opened.reason if is_suspended else ""
            tenant.save(update_fields=["suspended", "suspended_reason"])
    return opened.revision


def _check_new(wanted: list[NewTenant], tiers: Iterable[str]) -> None:
    names = [new.name for new in wanted]
    taken = set(Tenant.objects.filter(name__in=names).values_list("name", flat=True))
    known = set(tiers)
    for new in wanted:
        read(tenant_name, new.name)
        if new.name in taken:
            raise refuse("name", "taken", f"tenant {new.name} already exists; choose another name")
        if new.tier not in known:
            raise refuse("tier", "unknown", f"there is no tier {new.tier}; create it, or choose another")
        _label(new.label)
        _timezone(new.timezone)
        taken.add(new.name)


def _label(text: str) -> str:
    return one_line("label", text, LONGEST_LABEL)


def _timezone(name: str) -> str:
    if name not in known_zones():
        raise refuse("timezone", "timezone", f"timezone {name!r} is unknown; use an IANA name such as Europe/Berlin")
    return name
