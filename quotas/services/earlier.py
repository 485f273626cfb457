"""The configuration as it was before a draft wrote, from what the draft remembered of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from quotas.policies import spec
from quotas.policies.canary import Trial, canaries_of, policy_of
from quotas.policies.configuration_rows import to_us
from quotas.services.snapshots import CHANGE, ENDPOINT, OVERRIDE, POLICY, TENANT, State, key_of, split_key

States = Mapping[str, State]


def rewound(configuration: spec.Configuration, before: States) -> spec.Configuration:
    """Without history: parameters are since ever what they were."""
    policies = (
        *(policy for policy in configuration.policies if key_of(POLICY, policy.name) not in before),
        *(policy for name, state in _present(before, POLICY) if (policy := policy_of(name, state))),
    )
    return replace(
        configuration,
        policies=policies,
        overrides=(
            *(override for override in configuration.overrides if key_of(OVERRIDE, override.id) not in before),
            *(override_of(int(name), state) for name, state in _present(before, OVERRIDE)),
        ),
        endpoints=_endpoints(configuration, before),
        tenants=_tenants(configuration, before),
        canaries=(
            *(canary for canary in configuration.canaries if key_of(CHANGE, canary.change) not in before),
            *_canaries(policies, before),
        ),
    )


def override_of(number: int, state: Mapping[str, Any]) -> spec.Override:
    start, end = (to_us(datetime.fromisoformat(state[edge])) if state[edge] else None for edge in ("start", "end"))
    multiplier = tuple(state["multiplier"]) if state["multiplier"] else None
    return spec.Override(
        number, state["tenant"], state["endpoint"], start or 0, end, state["limits"], multiplier, state["carry"]
    )


def _present(before: States, kind: str) -> list[tuple[str, dict[str, Any]]]:
    named = ((*split_key(key), state) for key, state in before.items())
    return [(name, state) for found, name, state in named if found == kind and state is not None]


def _canaries(live: Iterable[spec.Policy], before: States) -> Iterator[spec.Canary]:
    """As they were; their history would not matter."""
    for name, state in _present(before, CHANGE):
        if "share" in state:
            yield from canaries_of(Trial(int(name), state["share"], state["policies"], 0, state["carry"]), live)


def _endpoints(configuration: spec.Configuration, before: States) -> dict[str, spec.Endpoint]:
    """One that is gone now had no limits of its own left, so it need not come back."""
    costs = {name: state["default_cost"] for name, state in _present(before, ENDPOINT)}
    return {
        name: replace(endpoint, default_cost=costs.get(name, endpoint.default_cost))
        for name, endpoint in configuration.endpoints.items()
        if name in costs or key_of(ENDPOINT, name) not in before
    }


def _tenants(configuration: spec.Configuration, before: States) -> dict[str, spec.Tenant]:
    tiers = {name: state["tier"] for name, state in _present(before, TENANT)}
    return {name: replace(tenant, tier=tiers.get(name, tenant.tier)) for name, tenant in configuration.tenants.items()}
