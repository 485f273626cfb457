"""How many loops an endpoint may have: each call of hr_observe runs all of them, and that blocks the server."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from quotas.changes.snapshot import POLICY, split_key
from quotas.models import Limit as LimitRow
from quotas.policies.limit_codec import row_limit
from quotas.policies.plans import loop_of
from quotas.policies.problems import Problem
from quotas.policies.resolve import Effective
from quotas.policies.shard_image import canonical
from quotas.policies.spec import Configuration, Limit, Policy

MOST_LOOPS: Final = 32  # of one endpoint; lua/health.lua runs no more


def loop_problems(configuration: Configuration, touched: Iterable[str]) -> list[Problem]:
    """Limits that adapt with the same parts share a loop, and a pinned limit has none.

    `configuration` has the edited policies, but not those of all tenants: others are read from the database.
    """
    edited = {name for kind, name in map(split_key, touched) if kind == POLICY}
    endpoints = {one.endpoint for one in configuration.policies if one.name in edited and any(_loops(one))}
    if not endpoints:
        return []
    found = defaultdict[str, set[str]](set)
    for policy in configuration.policies:
        found[policy.endpoint] |= set(_loops(policy))
    for endpoint, loop in _others(endpoints, {policy.name for policy in configuration.policies}):
        found[endpoint].add(loop)
    return [
        Problem(
            f"endpoint {endpoint}",
            "too_many",
            f"{endpoint} would have {len(found[endpoint])} different ways to adapt; the maximum is {MOST_LOOPS}. "
            "Use the same parts of adapt in several limits, or pin some",
        )
        for endpoint in sorted(endpoints)
        if len(found[endpoint]) > MOST_LOOPS
    ]


def _loops(policy: Policy) -> Iterator[str]:
    is_global = not policy.tier and not policy.tenant
    for limit in policy.limits:
        if loop := _loop(limit, policy.endpoint, is_global=is_global):
            yield loop


def _others(endpoints: set[str], known: set[str]) -> Iterator[tuple[str, str]]:
    """Endpoint and loop of the limits of other policies."""
    rows = LimitRow.objects.filter(adapt__isnull=False, policy__endpoint__name__in=endpoints)
    for row in rows.exclude(policy__name__in=known).select_related("policy__endpoint", "name"):
        is_global = row.policy.tier_id is None and row.policy.tenant_id is None
        if loop := _loop(row_limit(row.name.name, row), row.policy.scope, is_global=is_global):
            yield row.policy.scope, loop


def _loop(limit: Limit, endpoint: str, *, is_global: bool) -> str:
    """Empty: it has none."""
    if limit.adapt is None or limit.adapt.pin is not None or limit.mode == "off":
        return ""
    return canonical(loop_of(Effective(limit, endpoint, "", is_global=is_global)))
