"""Calendar quotas: usage in the current period, the burn-down of one quota, and when it will run out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any, Final

from django.db import connection
from django.db.models import Sum

from headroom_edge import keys
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from quotas.calibration.run_out import RunOut, run_out
from quotas.models import Endpoint
from quotas.models.usage import LET_THROUGH, UsageHour
from quotas.policies.explain import explain
from quotas.usage.queries.utilisation import period_of

MOST: Final = 200

# A tenant's own policy takes precedence over its tier's.
_QUERY: Final = """
    SELECT tenant, scope, quota, used FROM (
        SELECT DISTINCT ON (c.tenant_number, c.scope, c.limit_number)
            t.name AS tenant, coalesce(e.name, '*') AS scope, n.name AS quota, c.used,
            c.used / (l.parameters ->> 'limit')::float8 AS share
        FROM quotas_calendar AS c
        JOIN tenants_tenant AS t ON t.number = c.tenant_number
        JOIN quotas_limitname AS n ON n.number = c.limit_number
        LEFT JOIN unnest(%(scopes)s::text[], %(numbers)s::int[], %(names)s::text[]) AS e (scope, number, name)
            ON e.scope = c.scope
        JOIN quotas_policy AS p ON (p.tenant_id = t.number OR p.tenant_id IS NULL AND p.tier_id = t.tier_id)
            AND p.endpoint_id IS NOT DISTINCT FROM e.number AND p.service = ''
        JOIN quotas_limit AS l ON l.policy_id = p.id AND l.name_id = c.limit_number
            AND l.algorithm = 'calendar_quota' AND l.mode = 'enforce'
        WHERE c.expires_at > %(now)s AND c.period_start <= %(now)s AND c.subject = '' AND NOT t.suspended
            AND t.archived_at IS NULL AND (c.scope = '' OR e.number IS NOT NULL)
        ORDER BY c.tenant_number, c.scope, c.limit_number, p.tenant_id NULLS LAST
    ) AS uses WHERE share >= %(least)s ORDER BY share DESC LIMIT %(most)s
"""

DAY: Final = timedelta(days=1)
DAYS_BACK: Final = 28


@dataclass(frozen=True, slots=True)
class QuotaUse:
    tenant: str
    scope: str  # `*` or an endpoint
    limit: str
    used: int
    of: int

    @property
    def share(self) -> float:
        return self.used / self.of


def quotas_used(now: datetime, least: float) -> list[QuotaUse]:
    """Quotas of which at least the share `least` is used, the fullest first."""
    endpoints = dict(Endpoint.objects.values_list("number", "name"))
    places: dict[str, Any] = {"scopes": [keys.endpoint_number(n) for n in endpoints], "numbers": list(endpoints)}
    with connection.cursor() as cursor:
        asked: dict[str, Any] = {"now": now, "least": least, "most": MOST, "names": list(endpoints.values())}
        cursor.execute(_QUERY, {**asked, **places})
        rows = cursor.fetchall()
    found = (_effective(*row) for row in rows)
    return [use for use in found if use is not None and use.share >= least]


def _effective(tenant: str, scope: str, limit: str, used: int) -> QuotaUse | None:
    """Usage against the limit in force now, including overrides; None: the quota no longer exists."""
    for explained in explain(tenant=tenant, endpoint=scope).limits:
        held, algorithm = explained.effective, explained.effective.limit.algorithm
        if held.limit.name == limit and held.scope == scope and isinstance(algorithm, CalendarQuota):
            return QuotaUse(tenant, scope, limit, used, algorithm.limit)
    return None


@dataclass(frozen=True, slots=True)
class BurnDown:
    start: datetime
    end: datetime
    limit: int
    used: int
    left: Sequence[tuple[datetime, float]]  # at the end of each step of the period, up to now
    outlook: RunOut

    @property
    def left_now(self) -> int:
        return max(self.limit - self.used, 0)

    @property
    def used_share(self) -> float:
        return self.used / self.limit

    @property
    def runs_out(self) -> datetime | None:
        return _moment(self.outlook.expected_s)

    @property
    def days_early(self) -> int:
        return (self.end - self.runs_out).days if self.runs_out else 0


def burn_down_read(
    quota: CalendarQuota,
    *,
    tenant: int,
    endpoints: Sequence[int],
    zone: str,
    unit: str,
    used: int | None,
    now: datetime,
) -> BurnDown:
    """`endpoints`: those the quota counts, empty: all. `used`: Redis' counter, None: take the drained count."""
    start, end = period_of(quota, zone, now)
    hours = _hours(tenant, endpoints, unit, min(start, now - DAYS_BACK * DAY), now)
    own = sorted((at, n) for at, n in hours.items() if at >= start)
    drained = sum(n for _, n in own)
    total = drained if used is None else used
    # The line must end at Redis' counter. If Redis counted more than was drained, the difference is put at the start;
    # if it counted less (a reset, or another period), the difference counts as unused.
    sums = accumulate((n for _, n in own), initial=total - drained)
    moments = [start, *(at + timedelta(hours=1) for at, _ in own)]
    left = [(min(at, now), quota.limit - min(max(n, 0), quota.limit)) for at, n in zip(moments, sums, strict=True)]
    outlook = run_out(_days(hours, now), total, quota.limit, now.timestamp(), end.timestamp())
    return BurnDown(start, end, quota.limit, total, _thinned(left), outlook)


def _hours(tenant: int, endpoints: Sequence[int], unit: str, begin: datetime, now: datetime) -> dict[datetime, int]:
    """Units allowed in each hour; denied requests are not charged."""
    first = begin.replace(minute=0, second=0, microsecond=0)
    starts = [first + timedelta(hours=i) for i in range((now - first) // timedelta(hours=1) + 1)]
    rows = UsageHour.objects.filter(start__in=starts, tenant_number=tenant, outcome__in=LET_THROUGH).order_by()
    if endpoints:
        rows = rows.filter(endpoint_number__in=endpoints)
    sums = rows.values_list("start").annotate(n=Sum("count" if unit == "requests" else "cost"))
    return {start: int(n) for start, n in sums}


def _days(hours: Mapping[datetime, int], now: datetime) -> list[float]:
    """Units per whole day back from now, oldest first, as far back as hours are known."""
    if not hours:
        return []
    known = min((now - min(hours)) // DAY, DAYS_BACK)
    days = [0.0] * known
    for at, n in hours.items():
        age = (now - at) // DAY
        if age < known:
            days[known - 1 - age] += n
    return days


def _thinned(left: Sequence[tuple[datetime, float]]) -> list[tuple[datetime, float]]:
    """At most about 90 points, for a chart; always includes the last."""
    every = max(1, len(left) // 90)
    return [*left[::every]] + ([left[-1]] if (len(left) - 1) % every else [])


def _moment(at_s: float | None) -> datetime | None:
    return None if at_s is None else datetime.fromtimestamp(at_s, UTC)
