"""Which pools are contended: they deny requests because they are full, or have no more to lend in fairness.

Counters know which limit denied, not why, so this reads the log of denials. The log is a sample, but it has some of
every minute in which a tenant was denied. Without a limit that borrows, nothing is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import connection

from headroom_edge.algorithms.sharing import MOST_LEVELS, Borrowing, Pool
from quotas.models import Limit
from quotas.models.usage import floored

MINUTE: Final = timedelta(minutes=1)
# A minute is judged once it is over and its denials have been drained.
DRAINED: Final = timedelta(seconds=30)
LONGEST: Final = timedelta(hours=6)
SHORT_OF_POOL: Final = ("limit/pool", "limit/share")
_DENIED: Final = """
    SELECT DISTINCT limit_number, date_bin('1 minute', at, 'epoch') FROM quotas_denial
    WHERE at >= %s AND at < %s AND reason = ANY(%s) AND limit_number = ANY(%s)
"""


@dataclass(frozen=True, slots=True)
class Contention:
    pool: str
    seconds: int  # without a break, up to now


def contended_read(now: datetime, back: timedelta) -> list[Contention]:
    """Pools that are contended now, the longest first; told as far as `back` at most."""
    roots = _roots()
    if not roots:
        return []
    end = floored(now - DRAINED, MINUTE)
    begin = end - min(back, LONGEST)
    with connection.cursor() as cursor:
        cursor.execute(_DENIED, [begin, end, list(SHORT_OF_POOL), list(roots)])
        rows = cursor.fetchall()
    minutes: dict[str, set[datetime]] = defaultdict(set)
    for limit, minute in rows:
        for pool in roots[limit]:
            minutes[pool].add(minute)
    found = (Contention(pool, _unbroken_s(denied, begin, end)) for pool, denied in minutes.items())
    return sorted((each for each in found if each.seconds), key=lambda each: (-each.seconds, each.pool))


def _unbroken_s(minutes: set[datetime], begin: datetime, end: datetime) -> int:
    start = end
    while start > begin and start - MINUTE in minutes:
        start -= MINUTE
    return int((end - start).total_seconds())


def _roots() -> Mapping[int, frozenset[str]]:
    """Number of each limit that can deny for its pool → the pools of that name; several if tiers differ."""
    rows = Limit.objects.filter(algorithm__in=(Pool.name, Borrowing.name), mode="enforce")
    parents: dict[str, set[str]] = defaultdict(set)
    numbers: dict[str, int] = {}
    pools: set[str] = set()
    for number, name, algorithm, parent in rows.values_list(
        "name_id", "name__name", "algorithm", "parameters__parent"
    ).distinct():
        numbers[name] = number
        if algorithm == Pool.name:
            pools.add(name)
        else:
            parents[name].add(parent)
    return {number: frozenset(_above(name, parents, pools)) for name, number in numbers.items()}


def _above(name: str, parents: Mapping[str, Iterable[str]], pools: set[str]) -> set[str]:
    found, names = set[str](), {name}
    for _ in range(MOST_LEVELS):
        found |= names & pools
        names = {parent for each in names for parent in parents.get(each, ())}
    return found
