"""Writes policies, their limits and the candidates of limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from quotas.changes.draft import Permits, draft
from quotas.changes.snapshot import POLICY, Draft, key_of
from quotas.errors import accepted, refuse
from quotas.lookups import find_active_tenant
from quotas.models import Limit, Policy, Revision
from quotas.policies import spec
from quotas.policies.limit_codec import limit_list, row_fields
from quotas.policies.limit_rows import change_parameters, delete_policy, set_candidate, write_policy
from quotas.policies.spec import Carry
from quotas.policies.validate import parse_policy

Fields = Mapping[str, Any]


def policy_create(
    *,
    name: str,
    limits: Sequence[Fields],
    author: str,
    reason: str,
    endpoint: str = spec.EVERYWHERE,
    tier: str | None = None,
    tenant: str | None = None,
    carry: Carry = "keep",
    **permits: Unpack[Permits],
) -> Policy:
    """For a tier, a tenant, or everyone if neither is given; limits as in a policy document, each with its name."""
    fields = {"name": name, "endpoint": endpoint, "tier": tier, "tenant": tenant, "limits": list(limits)}
    with draft(action="policy_create", author=author, reason=reason, carry=carry, **permits) as opened:
        if Policy.objects.filter(name=name).exists():
            raise refuse("name", "taken", f"policy {name} already exists; update it, or choose another name")
        if tenant is not None:
            find_active_tenant(tenant)
        return write_policy(opened, accepted(parse_policy(fields)))


def policy_update(
    *, name: str, limits: Sequence[Fields], author: str, reason: str, carry: Carry = "keep", **permits: Unpack[Permits]
) -> Revision | None:
    """Replaces all limits; a limit that keeps its name keeps its live state, as `carry` says."""
    with draft(action="policy_update", author=author, reason=reason, carry=carry, **permits) as opened:
        row = find_policy(name)
        write_policy_limits(opened, row, limits)
    return opened.revision


def policy_delete(
    *, name: str, author: str, reason: str, carry: Carry = "keep", **permits: Unpack[Permits]
) -> Revision | None:
    with draft(action="policy_delete", author=author, reason=reason, carry=carry, **permits) as opened:
        delete_policy(opened, find_policy(name))
    return opened.revision


def limit_set(
    *, policy: str, limit: Fields, author: str, reason: str, carry: Carry = "keep", **permits: Unpack[Permits]
) -> Revision | None:
    """Adds one limit to a policy, or replaces the one of that name."""
    with draft(action="limit_set", author=author, reason=reason, carry=carry, **permits) as opened:
        row = find_policy(policy)
        others = [fields for fields in policy_limits(row) if fields["name"] != limit.get("name")]
        write_policy_limits(opened, row, [*others, limit])
    return opened.revision


def limit_remove(
    *, policy: str, limit: str, author: str, reason: str, carry: Carry = "keep", **permits: Unpack[Permits]
) -> Revision | None:
    """A policy's last limit cannot be removed: delete the policy."""
    with draft(action="limit_remove", author=author, reason=reason, carry=carry, **permits) as opened:
        row = find_policy(policy)
        find_limit(row, limit)
        write_policy_limits(opened, row, [fields for fields in policy_limits(row) if fields["name"] != limit])
    return opened.revision


def candidate_set(
    *, policy: str, limit: str, candidate: Fields | None, author: str, reason: str, **permits: Unpack[Permits]
) -> Revision | None:
    """Sets other parameters that are counted beside a limit but never enforced; None removes them."""
    with draft(action="candidate_set", author=author, reason=reason, **permits) as opened:
        row = find_limit(find_policy(policy), limit)
        opened.touch(key_of(POLICY, policy))
        set_candidate(row, candidate)
    return opened.revision


def candidate_promote(
    *, policy: str, limit: str, author: str, reason: str, **permits: Unpack[Permits]
) -> Revision | None:
    """The candidate becomes the limit and keeps its live state."""
    with draft(action="candidate_promote", author=author, reason=reason, **permits) as opened:
        row = find_limit(find_policy(policy), limit)
        if row.candidate is None:
            raise refuse("limit", "no_candidate", f"limit {limit} of policy {policy} has no candidate; set one first")
        opened.touch(key_of(POLICY, policy))
        change_parameters(opened, row, row.candidate)
        row.candidate, row.adopts_candidate = None, True
        row.save()
    return opened.revision


def find_policy(name: str) -> Policy:
    row = Policy.objects.select_related("tier", "tenant", "endpoint").filter(name=name).first()
    if row is None:
        raise refuse("policy", "unknown", f"there is no policy {name}; create it, or correct the name")
    return row


def find_limit(policy: Policy, name: str) -> Limit:
    row = policy.limits.filter(name__name=name).first()
    if row is None:
        raise refuse("limit", "unknown", f"policy {policy.name} has no limit {name}; correct the name")
    return row


def policy_limits(row: Policy) -> list[dict[str, Any]]:
    """As a document lists them."""
    return limit_list({limit.name.name: row_fields(limit) for limit in row.limits.select_related("name")})


def write_policy_limits(opened: Draft, row: Policy, limits: Sequence[Fields]) -> None:
    tier, tenant = row.tier and row.tier.name, row.tenant and row.tenant.name
    fields = {"name": row.name, "tier": tier, "tenant": tenant, "endpoint": row.scope, "limits": list(limits)}
    write_policy(opened, accepted(parse_policy(fields)))
