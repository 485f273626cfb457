"""Makes everything what a change says it shall be, inside an open draft."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quotas.lookups import find_tenant, find_tier
from quotas.models import Limit
from quotas.policies.carry_over import hand_over_tier
from quotas.services.drafts import Draft
from quotas.services.restoring import restore
from quotas.services.snapshots import POLICY, TENANT, TIER, State, snapshots, split_key
from quotas.services.tenants import write_tier


def apply_states(opened: Draft, states: Mapping[str, State]) -> None:
    """Memberships included. A limit that becomes what its candidate was takes over the candidate's state."""
    opened.touch(*states)
    now = snapshots(states)
    for key, state in states.items():
        if split_key(key)[0] == TIER and state is not None and now[key] is None:
            write_tier(opened, split_key(key)[1])
    candidates = _candidates(states)
    restore(opened, states)
    for key, state in states.items():
        if split_key(key)[0] == TENANT and state is not None:
            _move(opened, split_key(key)[1], state["tier"])
    _adopt(opened, candidates)


def _move(opened: Draft, name: str, tier: str) -> None:
    tenant = find_tenant(name)
    if tenant.tier.name != tier:
        hand_over_tier(opened, tenant, find_tier(tier))


def _candidates(states: Mapping[str, State]) -> dict[int, Any]:
    names = [split_key(key)[1] for key in states if split_key(key)[0] == POLICY]
    rows = Limit.objects.filter(policy__name__in=names).exclude(candidate=None)
    return dict(rows.values_list("pk", "candidate"))


def _adopt(opened: Draft, candidates: Mapping[int, Any]) -> None:
    for row in Limit.objects.filter(pk__in=candidates, changed_revision_id=opened.number):
        if candidates[row.pk] == {"algorithm": row.algorithm, "parameters": row.parameters}:
            row.adopts_candidate = True
            row.save(update_fields=["adopts_candidate"])
