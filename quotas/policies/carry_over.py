"""Used quota stays used when a limit is recreated, or when a tenant gets it from another policy."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple

from django.db.models import Model, Q

from quotas.changes.snapshot import Draft
from quotas.models import Limit, Policy
from quotas.policies import spec
from quotas.policies.configuration import configuration_part
from quotas.policies.layers import Layers, PolicyIndex
from quotas.policies.limit_codec import handovers_dump
from quotas.policies.resolve import history
from quotas.policies.spec import PAST_GENERATIONS, Generation, Handover
from tenants.models import Tenant, Tier


class Place(NamedTuple):
    """To whom and to what a policy is attached."""

    tier: int | None
    tenant: int | None
    endpoint: int | None
    service: str

    @classmethod
    def of(cls, policy: Policy) -> Place:
        return cls(policy.tier_id, policy.tenant_id, policy.endpoint_id, policy.service)


Former = dict[str, Any]  # columns of a limit
Formers = dict[tuple[Place, int], Former]  # by place and number of the limit's name


def former_limits(places: Collection[Place], names: Collection[int]) -> Formers:
    """The last state of every limit of these names that was ever at one of these places."""
    if not places or not names:
        return {}
    at = _policies(places)
    events = events_of(Limit).filter(policy_id__in=at, name_id__in=names).order_by("policy_id", "name_id", "-pgh_id")
    found: dict[tuple[Place, int], Any] = {}
    for event in events.distinct("policy_id", "name_id"):
        key = (at[event.policy_id], event.name_id)
        if key not in found or found[key].pgh_id < event.pgh_id:
            found[key] = event
    return {key: _columns(event) for key, event in found.items()}


def _policies(places: Collection[Place]) -> dict[int, Place]:
    """The ids of all policies, past and present, at these places."""
    tiers, tenants = {place.tier for place in places}, {place.tenant for place in places}
    attached = Q(tier_id__in=tiers) | Q(tier_id=None), Q(tenant_id__in=tenants) | Q(tenant_id=None)
    rows = events_of(Policy).filter(*attached).order_by("pgh_obj_id", "-pgh_id").distinct("pgh_obj_id")
    columns = ("pgh_obj_id", "tier_id", "tenant_id", "endpoint_id", "service")
    known = ((number, Place(*place)) for number, *place in rows.values_list(*columns))
    return {number: place for number, place in known if place in places}


def events_of(model: type[Model]) -> Any:
    """Every recorded state of the model's rows, past ones too."""
    event_model: Any = model.events.rel.related_model  # type: ignore[attr-defined] # made by tracked()
    return event_model.objects


def _columns(event: Any) -> Former:
    columns = ("algorithm", "parameters", "changed_revision_id", "carry", "past")
    return {column: getattr(event, column) for column in columns}


def layers_of(tenant: Tenant) -> Layers:
    """The tenant's layers as they are in the database now; times are revision numbers."""
    part = configuration_part(tenants=[tenant.name], in_revisions=True)
    return PolicyIndex.of_configuration(part).of_tenant(part.tenants[tenant.name])


def hand_over_tier(opened: Draft, tenants: Sequence[Tenant], target: Tier) -> None:
    """Moves them to the tier. What tenants without anything of their own carry over depends on their tier only."""
    names = [tenant.name for tenant in tenants]
    part = configuration_part(tenants=names, tiers=[target.name], in_revisions=True)
    index = PolicyIndex.of_configuration(part)
    plain: dict[tuple[str, bool], list[dict[str, Any]]] = {}
    for tenant in tenants:
        before = index.of_tenant(part.tenants[tenant.name])
        alike = (part.tenants[tenant.name].tier, index.is_canary(tenant.name, part.tenants[tenant.name].tier))
        stored = plain.get(alike) if before.is_plain else None
        if stored is None:
            stored = handovers_dump(_handed_over(opened, before, index.tiers.get(target.name, {})))
        if before.is_plain:
            plain[alike] = stored
        tenant.tier, tenant.handovers = target, stored
    Tenant.objects.bulk_update(tenants, ["tier", "handovers"], batch_size=2_000)


def _handed_over(opened: Draft, before: Layers, tier: Mapping[str, spec.Policy]) -> Iterator[Handover]:
    after = replace(before, tier=tier, handovers=())
    found = (_handover(opened, before, after, scope, name) for scope, name in _supplied_by_tier(after))
    return (handover for handover in found if handover)


def hand_over_limits(
    opened: Draft, tenant: Tenant, before: Layers, scope: str, *, added: Set[str], removed: Set[str]
) -> None:
    """After limits of the tenant's own policy were added or removed; `before`: its layers until then."""
    kept = [h for h in before.handovers if h.scope != scope or h.limit not in added]
    after = replace(before, tenant={}, handovers=())
    found = (_handover(opened, before, after, scope, name) for name in sorted(removed))
    tenant.handovers = handovers_dump([*kept, *(handover for handover in found if handover)])
    tenant.save(update_fields=["handovers"])


def _supplied_by_tier(layers: Layers) -> list[tuple[str, str]]:
    supplied = [(scope, limit.name) for scope, policy in layers.tier.items() for limit in policy.limits]
    own = {(scope, limit.name) for scope, policy in layers.tenant.items() for limit in policy.limits}
    return sorted(set(supplied) - own)


def _handover(opened: Draft, before: Layers, after: Layers, scope: str, name: str) -> Handover | None:
    """None: nothing to carry over, because there is no limit before or after, or it is the same."""
    old, new = generations(before, scope, name), generations(after, scope, name)
    if not old or not new or (len(old) == 1 and old[0].algorithm == new[0].algorithm):
        return None
    return Handover(scope, name, opened.number, opened.carry, old[:PAST_GENERATIONS])


def generations(layers: Layers, scope: str, name: str) -> tuple[Generation, ...]:
    """The limit's generations at this scope, newest first, even if another limit replaces it there."""
    own, tier = layers.tenant.get(scope), layers.tier.get(scope)
    alone = replace(layers, tenant={scope: own} if own else {}, tier={scope: tier} if tier else {})
    return history(alone, scope, name)
