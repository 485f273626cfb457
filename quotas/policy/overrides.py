"""Whether an override can do what it says."""

from collections.abc import Mapping
from dataclasses import replace

from quotas.policy.patch import PatchError, merged, scaled
from quotas.policy.resolve import Layers, Resolved, resolve
from quotas.policy.spec import EVERYWHERE, Limit, Override


def override_problem(layers: Layers, override: Override, now_us: int) -> str | None:
    """Why the override cannot do what it says, in one sentence; `layers` may hold it already."""
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
