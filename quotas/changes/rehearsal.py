"""An edit of many objects, rehearsed in memory: it writes no row, so it locks nothing that a writer needs.

It refuses what the writers refuse: unknown names, routes and places that are taken, endpoints that are in use, and
numbers that run out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from django.db.models import Max, Q

from quotas.changes.snapshot import ENDPOINT, POLICY, TENANT, TIER, Draft, State, States, split_key
from quotas.endpoints import check_routes, endpoints_in_use
from quotas.lookups import find_endpoint, find_tenant, find_tier, next_number
from quotas.models import Endpoint, Policy
from quotas.models.policy import ENDPOINT_NUMBERS
from quotas.policies import spec
from quotas.policies.endpoint import DeclaredEndpoint
from quotas.policies.limit_rows import place_moved, place_taken
from tenants.models import Tenant, Tier

FORESEEN = frozenset({TIER, ENDPOINT, POLICY, TENANT})  # kinds of objects
Place = tuple[str | None, str | None, str]  # tier, tenant, scope


def foresee(opened: Draft, states: States, *, may_move: bool = False) -> None:
    """Takes these states as written. `may_move`: a policy may be attached to something else than before."""
    endpoints, policies = _of_kind(states, ENDPOINT), _of_kind(states, POLICY)
    declared = [DeclaredEndpoint(n, s["method"], s["path"], s["default_cost"]) for n, s in endpoints.items() if s]
    check_routes(declared)
    _check_numbers(declared)
    _check_names(policies, _of_kind(states, TIER), endpoints)
    _check_places(policies, may_move)
    _check_retired([name for name, state in endpoints.items() if state is None], policies)
    opened.foresee(states)


def _of_kind(states: States, kind: str) -> dict[str, State]:
    return {split_key(key)[1]: state for key, state in states.items() if split_key(key)[0] == kind}


def _check_numbers(declared: Collection[DeclaredEndpoint]) -> None:
    known = set(Endpoint.objects.filter(name__in=[one.name for one in declared]).values_list("name", flat=True))
    if new := sum(one.name not in known for one in declared):
        newest = Endpoint.objects.aggregate(newest=Max("number"))["newest"] or 0
        next_number(newest + new - 1, ENDPOINT_NUMBERS, "endpoint")


def _check_names(policies: Mapping[str, State], tiers: Mapping[str, State], endpoints: Mapping[str, State]) -> None:
    """A name that is neither live nor foreseen is refused by whoever looks it up."""
    states = [state for state in policies.values() if state]
    wanted = {state["tenant"] for state in states if state["tenant"]}
    live_tenants = set(Tenant.objects.filter(name__in=wanted).values_list("name", flat=True))
    live_tiers = {*tiers, *Tier.objects.filter(retired=False).values_list("name", flat=True)} if states else set()
    registered = Endpoint.objects.filter(retired=False).values_list("name", flat=True) if states else ()
    live_endpoints = {*endpoints, *registered}
    for state in states:
        if state["tier"] and state["tier"] not in live_tiers:
            find_tier(state["tier"])
        if state["tenant"] and state["tenant"] not in live_tenants:
            find_tenant(state["tenant"])
        if not state["endpoint"].endswith(spec.EVERYWHERE) and state["endpoint"] not in live_endpoints:
            find_endpoint(state["endpoint"])


def _check_places(policies: Mapping[str, State], may_move: bool) -> None:
    states = {name: state for name, state in policies.items() if state}
    if not states:
        return
    live = dict(_live_places(states))
    taken = {place: name for name, place in live.items() if name not in policies}
    for name, state in states.items():
        wanted = spec.Policy(name, state["endpoint"], (), state["tier"], state["tenant"])
        place = (wanted.tier, wanted.tenant, wanted.endpoint)
        if not may_move and live.get(name, place) != place:
            raise place_moved(name, wanted)
        if taken.setdefault(place, name) != name:
            raise place_taken(wanted, taken[place])


def _live_places(states: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Place]]:
    """Of policies with one of these names, and of those of the same owners."""
    owners = {state["tenant"] for state in states.values() if state["tenant"]}
    rows = Policy.objects.filter(Q(tenant=None) | Q(tenant__name__in=owners) | Q(name__in=states)).order_by()
    fields = rows.values_list("name", "tier__name", "tenant__name", "endpoint__name", "service")
    for name, tier, tenant, endpoint, service in fields:
        scope = endpoint or (f"{service}:{spec.EVERYWHERE}" if service else spec.EVERYWHERE)
        yield name, (tier, tenant, scope)


def _check_retired(names: Collection[str], policies: Mapping[str, State]) -> None:
    rows = list(Endpoint.objects.filter(name__in=names, retired=False)) if names else []
    if not rows:
        return
    live = Policy.objects.filter(endpoint__in=rows).exclude(name__in=policies).values_list("endpoint__name", "name")
    retired = frozenset(names)
    wanted = [(s["endpoint"], name) for name, s in sorted(policies.items()) if s and s["endpoint"] in retired]
    if problem := endpoints_in_use(rows, [*live, *wanted]):
        raise problem
