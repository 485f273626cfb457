"""Overrides that a rollback would leave without effect, because it does not move their tenants back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from headroom_edge.algorithms.base import counted
from quotas.errors import Refused, refuse
from quotas.policies.spec import Override, Tenant

MOST_NAMED: Final = 3


def check_left_behind(idle: Sequence[Override], tenants: Mapping[str, Tenant], former: Mapping[str, str]) -> None:
    """`idle`: overrides that would change nothing. `former`: the tiers that tenants were on, in a rollback."""
    found = [each for each in idle if former.get(each.tenant, tenants[each.tenant].tier) != tenants[each.tenant].tier]
    if found:
        raise _left_behind(found, tenants, former)


def _left_behind(found: Sequence[Override], tenants: Mapping[str, Tenant], former: Mapping[str, str]) -> Refused:
    """Numbers are not named: an override that would come back has none yet."""

    def named(each: Override) -> str:
        what = ", ".join(sorted(each.limits)) or "all limits"
        moved = f"moved from {former[each.tenant]} to {tenants[each.tenant].tier} since"
        return f"that of {each.tenant} ({what} on {each.endpoint}), which {moved}"

    they = counted(len(found), "override would", "overrides would")
    more = f", and {len(found) - MOST_NAMED:,} more" if len(found) > MOST_NAMED else ""
    them = "it" if len({each.tenant for each in found}) == 1 else "them"
    message = (
        f"{they} change nothing: {', '.join(map(named, found[:MOST_NAMED]))}{more}; a rollback leaves tenants on their "
        f"tiers, so move {them} back first, or revert the revision that moved {them}, and then roll back"
    )
    return refuse("number", "moved", message)
