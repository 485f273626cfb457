"""Which pools are contended: they deny requests because they are full, or have no more to lend in fairness.

Counters know which limit denied, not why, so this reads the log of denials. The log is a sample, but it has some of
every minute in which a tenant was denied. Without a limit that borrows, nothing is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, NamedTuple

from django.db import connection
from django.db.models import Q

from headroom_edge.algorithms.sharing import Pool
from quotas.models.usage import floored
from quotas.policies.spec import EVERYWHERE
from quotas.pools.queries import PoolRow, pools_above, pools_of, sharing_limits

MINUTE: Final = timedelta(minutes=1)
# A minute is judged once it is over and its denials have been drained.
DRAINED: Final = timedelta(seconds=30)
LONGEST: Final = timedelta(hours=6)
KINDS: Final = ("tenant", "tier", "shared")  # the most specific first
SHORT_OF_POOL: Final = ("limit/pool", "limit/share")
# One row for all tenants of a tier, but for those that have a pool of their own.
_DENIED: Final = """
    WITH owner AS (
        SELECT DISTINCT p.tenant_id AS number FROM quotas_limit AS l JOIN quotas_policy AS p ON p.id = l.policy_id
        WHERE l.algorithm = %(pool)s AND l.mode = 'enforce' AND p.tenant_id IS NOT NULL
    )
    SELECT DISTINCT d.limit_number, d.endpoint_number, t.tier_id, o.number, date_bin('1 minute', d.at, 'epoch')
    FROM quotas_denial AS d JOIN tenants_tenant AS t ON t.number = d.tenant_number
        LEFT JOIN owner AS o ON o.number = d.tenant_number
    WHERE d.at >= %(begin)s AND d.at < %(end)s AND d.reason = ANY(%(reasons)s) AND d.limit_number = ANY(%(limits)s)
"""


@dataclass(frozen=True, slots=True)
class Contention:
    """Of a pool, or of all pools that a policy gives the tenants of its tier."""

    policy: str
    limit: str
    seconds: int  # without a break, up to now

    def __str__(self) -> str:
        return f"{self.policy}/{self.limit}"


class _Place(NamedTuple):
    """Where a request was denied."""

    endpoint: int
    tier: int
    owner: int | None  # its tenant, if it has a pool of its own


def contended_read(now: datetime, back: timedelta) -> list[Contention]:
    """Pools that are contended now, the longest first; told as far as `back` at most."""
    roots = pools_above()
    if not roots:
        return []
    end = floored(now - DRAINED, MINUTE)
    begin = end - min(back, LONGEST)
    minutes = _minutes(_denied(begin, end, list(roots)), roots)
    found = (Contention(*pool, _unbroken_s(denied, begin, end)) for pool, denied in minutes.items())
    return sorted((each for each in found if each.seconds), key=lambda each: (-each.seconds, str(each)))


def _denied(begin: datetime, end: datetime, limits: Sequence[int]) -> list[tuple[int, _Place, datetime]]:
    asked: dict[str, Any] = {
        "pool": Pool.name,
        "begin": begin,
        "end": end,
        "reasons": list(SHORT_OF_POOL),
        "limits": limits,
    }
    with connection.cursor() as cursor:
        cursor.execute(_DENIED, asked)
        return [(limit, _Place(*place), minute) for limit, *place, minute in cursor.fetchall()]


def _minutes(
    denied: Sequence[tuple[int, _Place, datetime]], roots: Mapping[int, frozenset[str]]
) -> Mapping[tuple[str, str], set[datetime]]:
    """Of each pool, by policy and limit."""
    found: dict[tuple[str, str], set[datetime]] = defaultdict(set)
    pools = _pools({place.owner for _, place, _ in denied}) if denied else {}
    nearest = cache(lambda name, place: _nearest(pools.get(name, ()), place))
    for limit, place, minute in denied:
        for pool in filter(None, (nearest(name, place) for name in roots[limit])):
            found[pool.policy, pool.name].add(minute)
    return found


def _pools(owners: Collection[int | None]) -> Mapping[str, list[PoolRow]]:
    """Those of tiers, of everyone and of these tenants, by name."""
    rows = sharing_limits().filter(algorithm=Pool.name, mode="enforce")
    found = pools_of(rows.filter(Q(policy__tenant=None) | Q(policy__tenant__in=[each for each in owners if each])))
    pools: dict[str, list[PoolRow]] = defaultdict(list)
    for pool in found:
        pools[pool.name].append(pool)
    return pools


def _nearest(pools: Iterable[PoolRow], place: _Place) -> PoolRow | None:
    """The one that counts requests of this place: the tenant's before the tier's, the endpoint's before that of all."""
    found = [pool for pool in pools if _holds(pool, place)]
    return min(found, key=lambda pool: (KINDS.index(pool.kind), pool.scope == EVERYWHERE), default=None)


def _holds(pool: PoolRow, place: _Place) -> bool:
    policy = pool.row.policy
    is_there = not pool.endpoints or place.endpoint in pool.endpoints
    return is_there and policy.tenant_id in (None, place.owner) and policy.tier_id in (None, place.tier)


def _unbroken_s(minutes: set[datetime], begin: datetime, end: datetime) -> int:
    start = end
    while start > begin and start - MINUTE in minutes:
        start -= MINUTE
    return int((end - start).total_seconds())
