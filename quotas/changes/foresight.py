"""A configuration with states that are not in the database, for the checks of a dry run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from quotas.changes.snapshot import ENDPOINT, POLICY, TIER, State, States, endpoint_of, present_states, rewound
from quotas.lookups import next_number
from quotas.models.policy import LIMIT_NUMBERS
from quotas.policies import spec
from quotas.policies.limit_codec import CANDIDATE, algorithm_load


def foreseen(configuration: spec.Configuration, states: States) -> spec.Configuration:
    """The configuration with these states. New objects have the next numbers, as the writers would give them."""
    known = rewound(configuration, states)
    tiers = dict(known.tiers)
    endpoints = {name: endpoint for name, endpoint in known.endpoints.items() if endpoint.number}  # the others are new
    for name, state in present_states(states, TIER):
        number = _next(tier.number for tier in tiers.values())
        tiers.setdefault(name, spec.Tier(number, name, state.get("priority", "")))
    number = _next(endpoint.number for endpoint in configuration.endpoints.values())
    for name, state in present_states(states, ENDPOINT):
        if name not in endpoints:
            endpoints[name] = endpoint_of(number, name, state)
            number += 1
    touched = dict(present_states(states, POLICY))
    policies = tuple(_with_candidates(p, touched[p.name]) if p.name in touched else p for p in known.policies)
    numbers = _limit_numbers(configuration.limit_numbers, policies)
    return replace(known, tiers=tiers, endpoints=endpoints, policies=policies, limit_numbers=numbers)


def with_candidates_of(before: State, state: Mapping[str, Any]) -> dict[str, Any]:
    """A policy's state after it was written: limits that stay keep their candidates."""
    live = before["limits"] if before else {}
    kept = {name: live[name][CANDIDATE] for name in state["limits"] if CANDIDATE in live.get(name, {})}
    limits = {
        name: {**fields, CANDIDATE: kept[name]} if name in kept else fields for name, fields in state["limits"].items()
    }
    return {**state, "limits": limits}


def _next(numbers: Iterable[int]) -> int:
    return max(numbers, default=0) + 1


def _with_candidates(policy: spec.Policy, state: Mapping[str, Any]) -> spec.Policy:
    limits = tuple(
        replace(limit, candidate=algorithm_load(candidate)) if (candidate := fields.get(CANDIDATE)) else limit
        for limit, fields in ((limit, state["limits"][limit.name]) for limit in policy.limits)
    )
    return replace(policy, limits=limits)


def _limit_numbers(known: Mapping[str, int], policies: Iterable[spec.Policy]) -> dict[str, int]:
    numbers, newest = dict(known), max(known.values(), default=0)
    for name in sorted({limit.name for policy in policies for limit in policy.limits} - numbers.keys()):
        newest = numbers[name] = next_number(newest, LIMIT_NUMBERS, "limit name")
    return numbers
