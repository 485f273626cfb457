"""What the members of a pool need, as calibration measures it.

Measuring and replaying busy members takes seconds, on a busy machine a minute, so pages let a worker do it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from django.db import transaction

from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.plan.priority import USUAL, Priority
from quotas.calibration.shares import OtherMembers
from quotas.errors import refuse
from quotas.locks import Lock, take_lock
from quotas.long_tasks import Progress, task_file
from quotas.models import Endpoint, Task
from quotas.models.revision import newest_revision_number
from quotas.policies.spec import EVERYWHERE, Unit
from quotas.pools.members import Members, Share, members_read
from quotas.pools.queries import PoolRow, pool_read
from quotas.recommendations.pool_proposal import PoolProposal, PoolShare
from quotas.recommendations.pool_shares import MOST_MEASURED, propose_shares
from quotas.slices import Cut, SlicedWork


def demand_ask(*, pool: PoolRow, author: str) -> Task:
    """Queues a proposal for the workers, or returns the one of this pool that is waiting or running."""
    with transaction.atomic():
        take_lock(Lock.TASKS)  # so that two who ask at once get one proposal
        newest = demand_newest(pool)
        if newest is not None and not newest.is_over:
            return newest
        return task_file(kind=Task.Kind.SHARES, author=author, asked=_asked(pool))


def demand_newest(pool: PoolRow) -> Task | None:
    """None: nobody has asked lately."""
    return Task.objects.filter(kind=Task.Kind.SHARES, asked__contains=_asked(pool)).order_by("-id").first()


def demand_numbered(pool: PoolRow, number: int) -> Task | None:
    return Task.objects.filter(pk=number, kind=Task.Kind.SHARES, asked__contains=_asked(pool)).first()


def _asked(pool: PoolRow) -> dict[str, str]:
    return {"policy": pool.policy, "limit": pool.name}


def _cut(asked: Mapping[str, Any]) -> Cut:
    """One slice: what a member may borrow depends on all the others."""
    return Cut({}, [{"what": f"{asked['limit']} of {asked['policy']}"}])


def _do(asked: Mapping[str, Any], _: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    revision, pool = newest_revision_number(), pool_read(asked["policy"], asked["limit"])
    if pool is None:
        raise refuse("pool", "gone", f"{asked['policy']} has no pool {asked['limit']} any more")
    return {"revision": revision, **demand_proposal(pool, members_read(pool), progress).json()}


def _join(_: Mapping[str, Any], results: list[dict[str, Any]]) -> dict[str, Any]:
    return results[0]


DEMAND = SlicedWork(_cut, _do, _join)


def demand_proposal(pool: PoolRow, members: Members, progress: Progress = lambda *_: None) -> PoolProposal:
    """Of the members of this page."""
    near = [share for share in members.shares if share.parent == pool.name and share.number]
    numbers = dict(Endpoint.objects.filter(name__in={share.scope for share in near}).values_list("name", "number"))
    shares = [_measured(pool, share, numbers) for share in near]
    others = _others(members, near)
    return propose_shares(pool.algorithm, shares, unit=cast("Unit", pool.unit), others=others, progress=progress)


def busiest_members(pool: PoolRow) -> Members:
    """As many as can be measured at once, those that asked for most first."""
    found = page = members_read(pool)
    while page.next and len(found.shares) + len(page.shares) <= MOST_MEASURED:
        page = members_read(pool, after=page.next)
        found = replace(found, shares=[*found.shares, *page.shares], next=page.next)
    return found


def _others(members: Members, near: Sequence[Share]) -> OtherMembers:
    """What the pool has promised to everybody else: to members of other pages, and to limits of everyone."""
    kept = [share.algorithm for share in near]
    assured = float(members.promise.assured) - sum(share.assured * SECOND_US / share.per_us for share in kept)
    bursts = members.promise.bursts - sum(share.burst for share in kept)
    tenants = len({share.tenant for share in near})
    return OtherMembers(0 if members.is_whole else max(0, members.count - tenants), max(0.0, assured), max(0, bursts))


def _measured(pool: PoolRow, share: Share, numbers: dict[str, int]) -> PoolShare:
    everywhere = frozenset(pool.endpoints) or None
    endpoints = everywhere if share.scope == EVERYWHERE else frozenset({numbers[share.scope]})
    return PoolShare(
        share.tenant,
        share.number,
        share.limit,
        share.algorithm,
        endpoints,
        share.scope,
        cast("Priority", share.priority or USUAL),
        _unmeasured(share),
    )


def _unmeasured(share: Share) -> str:
    if share.is_counted_apart:
        return ""
    return f"it counts by {share.subject}, and usage tells tenants and endpoints apart, not more; its share stays"
