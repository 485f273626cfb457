"""What tenants used of daily quotas on the day before.

The peak of the last 24 hours may lie in a period that is over: whoever used up yesterday's quota came close to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import connection

from headroom_edge.algorithms.calendar_quota import CalendarQuota
from headroom_edge.plan.subject import Subject
from quotas.models.usage import LET_THROUGH
from quotas.policies.resolve import Effective
from quotas.policies.spec import EVERYWHERE
from quotas.usage.queries.utilisation import period_of

SECOND: Final = timedelta(seconds=1)
_QUERY: Final = """
    SELECT u.tenant_number, d.begin, u.endpoint_number, sum(u.count), sum(u.cost)
    FROM unnest(%(tenants)s::int[], %(begins)s::timestamptz[], %(ends)s::timestamptz[]) AS d (tenant, begin, until)
    JOIN quotas_usage_1h AS u ON u.tenant_number = d.tenant AND u.start >= d.begin AND u.start < d.until
    WHERE u.start >= %(first)s AND u.outcome = ANY(%(let)s)
    GROUP BY 1, 2, 3
"""

Uses = dict[tuple[str, str], int]  # (scope, limit) → units


@dataclass(frozen=True, slots=True)
class DailyQuota:
    """A quota of a tenant, with the day before the current one in its time zone."""

    tenant: int
    effective: Effective
    begin: datetime
    end: datetime


def daily_quotas(tenant: int, zone: str, limits: Iterable[Effective], now: datetime) -> Iterable[DailyQuota]:
    for each in limits:
        quota = each.limit.algorithm
        if isinstance(quota, CalendarQuota) and quota.period == "day" and each.limit.subject == Subject():
            today, _ = period_of(quota, zone, now)
            yield DailyQuota(tenant, each, *period_of(quota, zone, today - SECOND))


def ended_days_read(quotas: Iterable[DailyQuota], numbers: Mapping[str, int]) -> dict[int, Uses]:
    """By tenant number; known to the hour. `numbers`: endpoint name → number."""
    wanted = list(quotas)
    found: dict[int, Uses] = defaultdict(dict)
    if not wanted:
        return found
    units = _units({(one.tenant, one.begin, one.end) for one in wanted})
    for one in wanted:
        scope, limit = one.effective.scope, one.effective.limit
        of_day = units.get((one.tenant, one.begin), {})
        counted = of_day.values() if scope == EVERYWHERE else [of_day.get(numbers.get(scope, 0), (0, 0))]
        used = sum(requests if limit.unit == "requests" else cost for requests, cost in counted)
        if used:
            found[one.tenant][scope, limit.name] = used
    return found


def _units(days: set[tuple[int, datetime, datetime]]) -> dict[tuple[int, datetime], dict[int, tuple[int, int]]]:
    """(tenant, begin) → endpoint → requests and cost."""
    tenants, begins, ends = (list(column) for column in zip(*days, strict=True))
    found: dict[tuple[int, datetime], dict[int, tuple[int, int]]] = defaultdict(dict)
    asked = {"tenants": tenants, "begins": begins, "ends": ends, "first": min(begins)}
    with connection.cursor() as cursor:
        cursor.execute(_QUERY, {**asked, "let": [str(outcome) for outcome in LET_THROUGH]})
        for tenant, begin, endpoint, requests, cost in cursor.fetchall():
            found[tenant, begin][endpoint] = int(requests), int(cost)
    return found


def most_used(running: Mapping[tuple[str, str], int], ended: Mapping[tuple[str, str], int]) -> Uses:
    """The most used in a period of the last 24 hours."""
    return {key: max(running.get(key, 0), ended.get(key, 0)) for key in {**running, **ended}}
