"""Whether endpoints, global policies and overrides can be enforced."""

from collections.abc import Mapping
from dataclasses import replace

from quotas.policies.layers import Layers
from quotas.policies.plans import ENDPOINT_NUMBER_MAX, PlanWriter, Terms, uses_tenant_zone
from quotas.policies.problems import CompileError
from quotas.policies.resolve import PatchError, Resolved, merged, resolve, scaled
from quotas.policies.spec import EVERYWHERE, MOST_COST, Endpoint, Limit, Override, Policy


def endpoint_problem(endpoint: Endpoint) -> str:
    """Empty: no problem."""
    if not 0 < endpoint.number <= ENDPOINT_NUMBER_MAX:
        return f"number {endpoint.number} is not from 1 to {ENDPOINT_NUMBER_MAX:,}; remove some endpoints"
    if not 0 < endpoint.default_cost <= MOST_COST:
        return f"default_cost {endpoint.default_cost} is not from 1 to {MOST_COST:,}; change it"
    return ""


def global_problem(policy: Policy, terms: Terms, wider: Mapping[str, Policy]) -> str:
    """Empty: no problem. `wider`: the global policies that apply where this one does."""
    if policy.problem:
        return policy.problem
    if uses_tenant_zone([policy]):
        return "timezone of a global calendar_quota cannot be tenant; name one, such as UTC"
    try:
        PlanWriter(terms.with_globals({**wider, policy.endpoint: policy}), "UTC").write_set(Resolved((), {}))
    except CompileError as error:
        return str(error)
    return ""


def override_problem(layers: Layers, override: Override, now_us: int) -> str | None:
    """Why the override cannot take effect, in one sentence. `layers` may already include it."""
    without = replace(layers, overrides=tuple(o for o in layers.overrides if o.id != override.id))
    resolved = resolve(without, max(override.start_us, now_us))
    try:
        if override.multiplier:
            return _multiply_problem(resolved, override, override.multiplier)
        limits = resolved.everywhere if override.endpoint == EVERYWHERE else resolved.at(override.endpoint)
        bases = {effective.limit.name: effective.limit for effective in limits}
        for name, patch in override.limits.items():
            if name not in bases and "algorithm" not in patch:
                return _no_such_limit(name, override.endpoint, bases)
            merged(name, bases.get(name), patch)
    except PatchError as error:
        return error.message
    return None


def _multiply_problem(resolved: Resolved, override: Override, multiplier: tuple[int, int]) -> str | None:
    if override.endpoint == EVERYWHERE:
        limits = [*resolved.everywhere, *(e for own in resolved.own.values() for e in own)]
    else:
        limits = list(resolved.own.get(override.endpoint, ()))
    for effective in limits:
        scaled(effective.limit, *multiplier)
    if limits:
        return None
    where = "the tenant has no limit"
    if override.endpoint != EVERYWHERE:
        where = f"{override.endpoint} has no limit of its own"
    return f"a multiplier would change nothing, since {where}; name limits with their values instead"


def _no_such_limit(name: str, endpoint: str, bases: Mapping[str, Limit]) -> str:
    known = ", ".join(sorted(bases)) or "none"
    return (
        f"there is no limit {name} on {endpoint} to change (there: {known}); "
        "correct the name, or give algorithm and parameters to add a limit"
    )
