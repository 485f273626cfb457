"""Pins a limit that adapts: an edit like any other, with a revision that can be undone."""

from __future__ import annotations

from typing import Unpack

from django.utils import timezone

from headroom_edge.algorithms.base import ParameterError
from quotas.adaptive.queries import FRESH
from quotas.changes.draft import Permits, draft
from quotas.errors import refuse
from quotas.models import AdaptiveReading, Revision
from quotas.policies.adapt import Adapt, share_of
from quotas.policies.edit import find_limit, find_policy, policy_limits, write_policy_limits


def limit_pin(
    *, policy: str, limit: str, author: str, reason: str, at: str = "", **permits: Unpack[Permits]
) -> Revision | None:
    """`at`: a share such as 42%; empty: where the limit was in the last two minutes."""
    with draft(action="limit_pin", author=author, reason=reason, **permits) as opened:
        row = find_policy(policy)
        adapt = _adapt(policy, limit)
        pinned = _pinned(adapt, _share(at) if at else _present(policy, limit, adapt))
        write_policy_limits(opened, row, [_with(fields, limit, pinned) for fields in policy_limits(row)])
    return opened.revision


def limit_unpin(*, policy: str, limit: str, author: str, reason: str, **permits: Unpack[Permits]) -> Revision | None:
    with draft(action="limit_unpin", author=author, reason=reason, **permits) as opened:
        row = find_policy(policy)
        pinned = _adapt(policy, limit).pinned(None)
        write_policy_limits(opened, row, [_with(fields, limit, pinned) for fields in policy_limits(row)])
    return opened.revision


def _adapt(policy: str, limit: str) -> Adapt:
    found = find_limit(find_policy(policy), limit).adapt
    if found is None:
        raise refuse("limit", "adapt", f"limit {limit} of policy {policy} does not adapt; set adapt first")
    return Adapt.parse(found)


def _share(text: str) -> int:
    try:
        return share_of(text)
    except ValueError as error:
        raise refuse("at", "adapt", str(error)) from None


def _present(policy: str, limit: str, adapt: Adapt) -> int:
    rows = AdaptiveReading.objects.filter(
        policy=policy, limit_name=limit, tenant_number=0, at__gt=timezone.now() - FRESH
    )
    value = rows.order_by("-at").values_list("value", flat=True).first()
    if value is None:
        raise refuse("at", "adapt", "no value was read in the last two minutes; name a share, such as 60%")
    return max(adapt.floor, min(value, adapt.ceiling))


def _pinned(adapt: Adapt, share: int) -> Adapt:
    try:
        return adapt.pinned(share)
    except ParameterError as error:
        raise refuse("at", "adapt", error.message) from None


def _with(fields: dict[str, object], limit: str, adapt: Adapt) -> dict[str, object]:
    return {**fields, "adapt": adapt.describe()} if fields["name"] == limit else fields
