"""Edits, duplicates and retires tiers. `write_tiers` creates them, and brings a retired one back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Unpack

from headroom_edge.algorithms.base import counted
from headroom_edge.keys import OWN_TENANT
from quotas.changes.draft import Permits, draft
from quotas.changes.snapshot import POLICY, TENANT, TIER, Draft, key_of, snapshots, tenant_state
from quotas.errors import Refused, accepted, refuse
from quotas.lookups import find_tier
from quotas.models import Policy, Revision
from quotas.policies import spec
from quotas.policies.bulk import delete_policies, write_policies
from quotas.policies.carry_over import hand_over_tier
from quotas.policies.limit_codec import limit_list
from quotas.policies.spec import Carry
from quotas.policies.tier import DeclaredTier
from quotas.policies.validate import parse_policy
from quotas.tenants.edit import write_tier
from quotas.tenants.fields import check_tier_fits
from quotas.tenants.stranded import StrandedChoice, settle_stranded
from tenants.models import Tenant, Tier

LONGEST_NAME: Final = 63
MOST_NAMED: Final = 5


def tier_update(
    *,
    name: str,
    author: str,
    reason: str,
    label: str | None = None,
    description: str | None = None,
    priority: str | None = None,
) -> Revision | None:
    """None: it stays. The name is the tier's identity and never changes."""
    with draft(action="tier_update", author=author, reason=reason) as opened:
        find_tier(name)
        write_tier(opened, DeclaredTier(name, label, description, priority))
    return opened.revision


def tier_duplicate(
    *,
    source: str,
    name: str,
    author: str,
    reason: str,
    label: str = "",
    description: str = "",
    priority: str | None = None,
) -> Tier:
    """A new tier with the limits of another, under policies of its own. Tenants and trials stay where they are.

    `priority` None: as the other's.
    """
    with draft(action="tier_duplicate", author=author, reason=reason) as opened:
        row = find_tier(source)
        if Tier.objects.filter(name=name, retired=False).exists():
            raise refuse("name", "taken", f"tier {name} already exists; choose another name")
        new = write_tier(opened, DeclaredTier(name, label, description, row.priority if priority is None else priority))
        write_policies(opened, list(_copies(row, name)))
        return new


def _copies(source: Tier, name: str) -> Iterator[spec.Policy]:
    policies = list(source.policies.order_by("name").values_list("name", flat=True))
    taken = set(Policy.objects.values_list("name", flat=True))
    states = snapshots(key_of(POLICY, policy) for policy in policies)
    for policy in policies:
        state: Mapping[str, Any] = states[key_of(POLICY, policy)] or {}
        copied = _free_name(_renamed(policy, source.name, name), taken)
        taken.add(copied)
        fields = {**state, "name": copied, "tier": name, "limits": limit_list(state["limits"])}
        yield accepted(parse_policy(fields))


def _renamed(policy: str, source: str, name: str) -> str:
    """`pro-all` of tier pro becomes `gold-all`."""
    rest = policy.removeprefix(source).lstrip("-_.") if policy.startswith(source) else policy
    return f"{name}-{rest}" if rest else name


def _free_name(wanted: str, taken: Collection[str]) -> str:
    name, number = wanted[:LONGEST_NAME].rstrip("-_."), 1
    while name in taken:
        number += 1
        end = f"-{number}"
        name = wanted[: LONGEST_NAME - len(end)] + end
    return name


def tier_retire(
    *,
    name: str,
    author: str,
    reason: str,
    to: str | None = None,
    places: Mapping[str, str] | None = None,
    carry: Carry = "keep",
    stranded_overrides: StrandedChoice = "refuse",
    **permits: Unpack[Permits],
) -> Revision | None:
    """Moves every tenant of the tier, deletes its limits and retires it, in one revision.

    `to`: the tier of all tenants that `places` does not name; `places`: tenant → its tier. Archived tenants go along,
    so that they can be restored. The tier keeps its name and number: created again, it is the same tier.
    `stranded_overrides`: what to do about overrides that change a limit which the new tier lacks; nobody can stay.
    """
    with draft(action="tier_retire", author=author, reason=reason, carry=carry, **permits) as opened:
        row = find_tier(name)
        if name == OWN_TENANT:
            raise refuse("tier", "built_in", f"tier {name} has the limits on Headroom's own API; it cannot be retired")
        targets = _targets(row, to, places or {})
        tenants = [tenant for rows in targets.values() for tenant in rows]
        opened.touch(key_of(TIER, name), *(key_of(TENANT, tenant.name) for tenant in tenants))
        policies = list(row.policies.select_related("tier", "tenant", "endpoint"))
        if stranded_overrides == "leave_out":
            raise refuse("stranded_overrides", "place", f"no tenant can stay on {name}; end the overrides instead")
        for target, rows in targets.items():
            settle_stranded(opened, rows, target, stranded_overrides)
        if opened.is_rehearsal:
            _foresee(opened, row, targets, policies)
            return None
        for target, rows in targets.items():
            hand_over_tier(opened, rows, find_tier(target))
        delete_policies(opened, policies)
        retire_tier(opened, row)
    return opened.revision


def retire_tier(opened: Draft, row: Tier) -> None:
    """Refused while it has tenants or limits: somebody may have added some since it was decided."""
    opened.touch(key_of(TIER, row.name))
    if row.tenants.exists():
        raise _without_place(row.name, row.tenants.order_by("name").values_list("name", flat=True))
    if (policy := row.policies.first()) is not None:
        message = f"tier {row.name} has limits in {policy.name}; delete that policy first"
        raise refuse("tier", "in_use", message)
    row.retired = True
    row.save(update_fields=["retired"])


def _targets(row: Tier, to: str | None, places: Mapping[str, str]) -> dict[str, list[Tenant]]:
    """Tier → the tenants that go there; refused unless every tenant has a place that exists."""
    tenants = {tenant.name: tenant for tenant in row.tenants.select_related("tier").order_by("name")}
    if strangers := sorted({*places} - {*tenants}):
        raise refuse("tenants", "unknown", f"tenant {strangers[0]} is not on tier {row.name}; leave it out")
    found: dict[str, list[Tenant]] = {}
    left = []
    for name, tenant in tenants.items():
        target = places.get(name) or to
        if target is None:
            left.append(name)
        else:
            found.setdefault(target, []).append(tenant)
    if left:
        raise _without_place(row.name, left)
    for target in sorted({*found, *([to] if to else ())}):
        if target == row.name:
            raise refuse("to", "same", f"tenants cannot stay on {row.name}; choose another tier")
        find_tier(target)
        check_tier_fits(f"tenants of {row.name}", target)
    return found


def _without_place(tier: str, names: Collection[str]) -> Refused:
    first = list(names)
    more = f" and {len(first) - MOST_NAMED:,} more" if len(first) > MOST_NAMED else ""
    they = counted(len(first), "tenant needs", "tenants need")
    message = f"{they} another tier before {tier} is retired: {', '.join(first[:MOST_NAMED])}{more}; choose one"
    return refuse("to", "in_use", message)


def _foresee(opened: Draft, row: Tier, targets: Mapping[str, Collection[Tenant]], policies: Collection[Policy]) -> None:
    """In a rehearsal, in place of writing, so that no row of many is locked."""
    moved = {key_of(TENANT, tenant.name): tier for tier, rows in targets.items() for tenant in rows}
    states = {key: tenant_state(**{**(opened.before[key] or {}), "tier": tier}) for key, tier in moved.items()}
    gone = dict.fromkeys([key_of(TIER, row.name), *(key_of(POLICY, policy.name) for policy in policies)])
    opened.foresee({**states, **gone})
