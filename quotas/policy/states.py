"""A policy document as the states of its objects, and back: what revisions store and diffs compare.

`tier:pro` → {}, `endpoint:rides:get` → its fields, `policy:pro-all` → its place and its limits by name.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from quotas.policy.document import Document
from quotas.policy.endpoints import DeclaredEndpoint
from quotas.policy.fields import limit_fields
from quotas.policy.spec import Policy

States = Mapping[str, Mapping[str, Any]]


def states_of(document: Document) -> dict[str, dict[str, Any]]:
    tiers = {f"tier:{name}": dict[str, Any]() for name in document.tiers}
    endpoints = {f"endpoint:{endpoint.name}": _endpoint(endpoint) for endpoint in document.endpoints}
    return tiers | endpoints | {f"policy:{policy.name}": _policy(policy) for policy in document.policies}


def without_candidates(state: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A document says nothing of what is on trial beside a limit."""
    if state is None or "limits" not in state:
        return state
    limits = {name: {k: v for k, v in fields.items() if k != "candidate"} for name, fields in state["limits"].items()}
    return {**state, "limits": limits}


def _endpoint(endpoint: DeclaredEndpoint) -> dict[str, Any]:
    hints = {name: value for name, value in asdict(endpoint.hints).items() if value is not None}
    return {
        "method": endpoint.method,
        "path": endpoint.path,
        "default_cost": endpoint.default_cost,
        "hints": hints,
    }


def _policy(policy: Policy) -> dict[str, Any]:
    limits = {limit.name: limit_fields(limit) for limit in policy.limits}
    return {"tier": policy.tier, "tenant": policy.tenant, "endpoint": policy.endpoint, "limits": limits}
