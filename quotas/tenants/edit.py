"""Writes tiers, and makes and edits tenants."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from quotas.changes.draft import draft
from quotas.changes.snapshot import TENANT, TIER, Draft, key_of, tenant_state
from quotas.errors import one_line, read, refuse
from quotas.lookups import find_active_tenant
from quotas.models import Revision
from quotas.policies.endpoint import highest_priority
from quotas.policies.tier import LONGEST_DESCRIPTION, LONGEST_LABEL, DeclaredTier
from quotas.policies.validate import tenant_name, tier_name
from quotas.tenants.fields import NewTenant, check_tier_fits, contacts_of, label_of, tags_of, timezone_of
from tenants.models import Tenant, Tier

# /tenants/new and its like are no tenant's pages.
RESERVED: Final = frozenset({"new", "import", "bulk", "move", "suspend", "resume", "tag"})


def tier_create(
    *, name: str, author: str, reason: str, label: str = "", description: str = "", priority: str = ""
) -> Tier:
    with draft(action="tier_create", author=author, reason=reason) as opened:
        if Tier.objects.filter(name=name, retired=False).exists():
            raise refuse("name", "taken", f"tier {name} already exists; choose another name")
        return write_tier(opened, DeclaredTier(name, label, description, priority))


def write_tier(opened: Draft, tier: DeclaredTier) -> Tier:
    return write_tiers(opened, [tier])[0]


def write_tiers(opened: Draft, tiers: Sequence[DeclaredTier]) -> list[Tier]:
    """Creates those that do not exist, and gives the others what is said of them. A retired one comes back."""
    for tier in tiers:
        read(tier_name, tier.name)
        one_line("label", tier.label or "", LONGEST_LABEL)
        one_line("description", tier.description or "", LONGEST_DESCRIPTION)
        read(highest_priority, tier.priority or "")
    opened.touch(*(key_of(TIER, tier.name) for tier in tiers))
    present = {row.name: row for row in Tier.objects.filter(name__in=[tier.name for tier in tiers])}
    new = [
        Tier(name=tier.name, label=tier.label or "", description=tier.description or "", priority=tier.priority or "")
        for tier in tiers
        if tier.name not in present
    ]
    for tier in tiers:
        if row := present.get(tier.name):
            # What a retired one was called before is forgotten, as if it were new.
            was = Tier() if row.retired else row
            row.label = was.label if tier.label is None else tier.label
            row.description = was.description if tier.description is None else tier.description
            row.priority = was.priority if tier.priority is None else tier.priority
            row.retired = False
    Tier.objects.bulk_update(present.values(), ["label", "description", "priority", "retired"])
    return [*Tier.objects.bulk_create(new), *present.values()]


def tenant_create(
    *,
    name: str,
    tier: str,
    author: str,
    reason: str,
    label: str = "",
    timezone: str = "UTC",
    tags: Collection[str] = (),
    contacts: Collection[str] = (),
    priority: str = "",
) -> Tenant:
    new = NewTenant(name, tier, label, timezone, tuple(tags), tuple(contacts), priority)
    return tenants_create(tenants=[new], author=author, reason=reason)[0]


def tenants_create(*, tenants: Iterable[NewTenant], author: str, reason: str) -> list[Tenant]:
    """Creates all of them in one revision, or none."""
    asked = list(tenants)
    with draft(action="tenant_create", author=author, reason=reason) as opened:
        tiers = {tier.name: tier for tier in Tier.objects.filter(retired=False)}
        names = [new.name for new in asked]
        taken = set(Tenant.objects.filter(name__in=names).values_list("name", flat=True))
        wanted = [checked(new, tiers.keys(), taken) for new in asked]
        opened.touch(*(key_of(TENANT, name) for name in names))
        if opened.is_rehearsal:  # rows would use up their numbers
            opened.foresee({key_of(TENANT, new.name): _state(new) for new in wanted})
            return []
        rows = [
            Tenant(
                name=new.name,
                tier=tiers[new.tier],
                label=new.label,
                timezone=new.timezone,
                tags=list(new.tags),
                contacts=list(new.contacts),
                priority=new.priority,
            )
            for new in wanted
        ]
        return Tenant.objects.bulk_create(rows, batch_size=5_000)


def _state(new: NewTenant) -> dict[str, Any]:
    return tenant_state(
        tier=new.tier,
        label=new.label,
        timezone=new.timezone,
        suspended="",
        tags=new.tags,
        contacts=new.contacts,
        priority=new.priority,
    )


def checked(new: NewTenant, tiers: Collection[str], taken: set[str]) -> NewTenant:
    """As it is stored; its name is taken from then on. Archived tenants keep theirs."""
    read(tenant_name, new.name)
    if new.name in RESERVED:
        raise refuse("name", "reserved", f"{new.name} is part of an address of these pages; choose another name")
    if new.name in taken:
        raise refuse("name", "taken", f"tenant {new.name} already exists; choose another name")
    if new.tier not in tiers:
        raise refuse("tier", "unknown", f"there is no tier {new.tier}; create it, or choose another")
    check_tier_fits(new.name, new.tier)
    taken.add(new.name)
    return replace(
        new,
        label=label_of(new.label),
        timezone=timezone_of(new.timezone),
        tags=tuple(tags_of(new.tags)),
        contacts=tuple(contacts_of(new.contacts)),
        priority=read(highest_priority, new.priority),
    )


def tenant_update(
    *,
    name: str,
    author: str,
    reason: str,
    label: str | None = None,
    timezone: str | None = None,
    tags: Collection[str] | None = None,
    contacts: Collection[str] | None = None,
    priority: str | None = None,
) -> Revision | None:
    """None: that stays as it is. The name never changes."""
    with draft(action="tenant_update", author=author, reason=reason) as opened:
        tenant = find_active_tenant(name)
        opened.touch(key_of(TENANT, name))
        tenant.label = tenant.label if label is None else label_of(label)
        tenant.timezone = tenant.timezone if timezone is None else timezone_of(timezone)
        tenant.tags = tenant.tags if tags is None else tags_of(tags)
        tenant.contacts = tenant.contacts if contacts is None else contacts_of(contacts)
        tenant.priority = tenant.priority if priority is None else read(highest_priority, priority)
        tenant.save(update_fields=["label", "timezone", "tags", "contacts", "priority"])
    return opened.revision
