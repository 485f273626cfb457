"""Which changes are on trial on an endpoint, or for a tenant, so that their pages can link to the result."""

from __future__ import annotations

from typing import Final

from quotas.models import Change
from quotas.models.change import TRIED
from quotas.policies.spec import EVERYWHERE

MOST: Final = 50  # trials at the same time


def trials_on(*, endpoint: str = "", tier: str = "", tenant: str = "") -> list[Change]:
    """Those that touch the endpoint, or limits of the tier or the tenant. Limits on `*` touch every endpoint."""
    rows = Change.objects.filter(state__in=TRIED).only(
        "id", "state", "share", "reason", "after", "before", "trial_ends"
    )
    return [row for row in rows.order_by("pk")[:MOST] if _touches(row, endpoint, tier, tenant)]


def _touches(row: Change, endpoint: str, tier: str, tenant: str) -> bool:
    for key in row.after:
        state = row.after[key] or row.before[key]
        if not key.startswith("policy:") or not state:
            continue
        place = state["endpoint"]
        is_here = not endpoint or place in (EVERYWHERE, endpoint) or (place.endswith(":*") and _is_in(endpoint, place))
        is_theirs = not (tier or tenant) or state["tier"] == tier or state["tenant"] == tenant
        if is_here and (is_theirs or not (state["tier"] or state["tenant"])):
            return True
    return False


def _is_in(endpoint: str, service: str) -> bool:
    return endpoint.startswith(service.removesuffix(EVERYWHERE))
