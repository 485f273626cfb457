"""What a tenant has used stays used when one of its limits gets another source.

Sources change for one tenant when it moves to another tier, and when a policy of its own appears or
goes. A policy of its own remembers in `Limit.past` what held before it; everything else the tenant
remembers in `Tenant.handovers`, one for each scope and limit name that its tier supplies.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace

from quotas.models.history import handovers_dump
from quotas.policy.resolve import PAST_GENERATIONS, Index, Layers, history
from quotas.policy.spec import Generation, Handover
from quotas.selectors.configuration import configuration_part
from quotas.services.drafts import Draft
from tenants.models import Tenant, Tier


def layers_of(tenant: Tenant, *, tiers: Iterable[str] = ()) -> tuple[Layers, Index]:
    """Of the tenant as the database has it now; times are revision numbers."""
    part = configuration_part(tenants=[tenant.name], tiers=list(tiers), in_revisions=True)
    index = Index.of_configuration(part)
    return index.of_tenant(part.tenants[tenant.name]), index


def hand_over_tier(opened: Draft, tenant: Tenant, target: Tier) -> None:
    before, index = layers_of(tenant, tiers=[target.name])
    after = replace(before, tier=index.tiers.get(target.name, {}), handovers=())
    kept = (_handover(opened, before, after, scope, name) for scope, name in _supplied_by_tier(after))
    tenant.tier = target
    tenant.handovers = handovers_dump(handover for handover in kept if handover)
    tenant.save(update_fields=["tier", "handovers"])


def hand_over_limits(
    opened: Draft, tenant: Tenant, before: Layers, scope: str, *, added: Set[str], removed: Set[str]
) -> None:
    """After limits of a policy of its own came and went; `before` is what held until then."""
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
    """None: there is nothing to carry over, for want of a limit before or after, or because they are the same."""
    old, new = generations(before, scope, name), generations(after, scope, name)
    if not old or not new or (len(old) == 1 and old[0].algorithm == new[0].algorithm):
        return None
    return Handover(scope, name, opened.number, opened.carry, old[:PAST_GENERATIONS])


def generations(layers: Layers, scope: str, name: str) -> tuple[Generation, ...]:
    """Newest first; looks at the scope alone, whether or not another limit takes its place there."""
    own, tier = layers.tenant.get(scope), layers.tier.get(scope)
    alone = replace(layers, tenant={scope: own} if own else {}, tier={scope: tier} if tier else {})
    return history(alone, scope, name)
