"""Sums usage over the tenants of each tier, so that no page has to: the last day, and the busiest of four weeks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import Max

from quotas.models import Endpoint, LimitName
from quotas.models.calendar_counter import CalendarCounter
from quotas.models.usage import REFUSED
from quotas.models.usage_rates import EVERY_ENDPOINT, RatesDay, RatesHour
from quotas.models.usage_totals import TierUse
from quotas.observations.histogram import merge_packed, unpack_histograms
from quotas.policies.spec import EVERYWHERE
from quotas.tenant_summary import store_tightest
from quotas.usage.near_limits import NearLimitsFound, measure_near_limits
from quotas.usage.queries.busiest_tenants import LEADERS, BusyTenant
from quotas.usage.queries.ended_days import Uses
from quotas.usage.queries.utilisation import PeakDemand
from tenants.models import Tenant

DAY: Final = timedelta(days=1)
SPAN: Final = timedelta(days=28)
LEADERS_EVERY: Final = timedelta(minutes=10)
WINDOW_S: Final = 60
P98: Final = 0.98

Pair = tuple[int, int]  # tier, endpoint

_BY_TENANT: Final = """
    SELECT r.tenant_number AS tenant, t.name AS name, t.tier_id AS tier, r.endpoint_number AS endpoint,
        max(r.peak_1s) AS in_1s, max(r.peak_10s) AS in_10s, max(r.peak_60s) AS in_60s,
        max(r.allowed + r.denied) AS in_hour, sum(r.allowed + r.denied) AS in_all, sum(r.denied) AS denied,
        max(coalesce(r.cost_1s, r.peak_1s)) AS cost_1s, max(coalesce(r.cost_10s, r.peak_10s)) AS cost_10s,
        max(coalesce(r.cost_60s, r.peak_60s)) AS cost_60s
    FROM quotas_rates_1h r JOIN tenants_tenant t ON t.number = r.tenant_number AND t.archived_at IS NULL
    WHERE r.start >= %s GROUP BY 1, 2, 3, 4
"""
_DAY: Final = f"""
    WITH by_tenant AS ({_BY_TENANT})
    SELECT tier, endpoint, count(*), sum(in_all), sum(denied), (array_agg(tenant ORDER BY in_60s DESC, tenant))[1],
        max(in_1s), max(in_10s), max(in_60s), max(in_hour), max(in_all), max(denied),
        max(cost_1s), max(cost_10s), max(cost_60s)
    FROM by_tenant GROUP BY 1, 2
"""  # noqa: S608 - of ours
_DENIED: Final = """
    SELECT t.tier_id, u.endpoint_number, u.limit_number, sum(u.count)
    FROM quotas_usage_1h u JOIN tenants_tenant t ON t.number = u.tenant_number AND t.archived_at IS NULL
    WHERE u.start >= %s AND u.outcome = ANY(%s) AND u.limit_number > 0 GROUP BY 1, 2, 3
"""
_LEADERS: Final = """
    WITH by_tenant AS (
        SELECT t.tier_id AS tier, r.endpoint_number AS endpoint, r.tenant_number AS tenant,
            max(r.peak_1s) AS in_1s, max(r.peak_60s) AS in_60s,
            sum(r.allowed + r.denied) AS asked, sum(r.denied) AS denied
        FROM (
            SELECT tenant_number, endpoint_number, peak_1s, peak_60s, allowed, denied FROM quotas_rates_1d
            WHERE start >= %(begin)s AND start < %(open)s
            UNION ALL
            SELECT tenant_number, endpoint_number, peak_1s, peak_60s, allowed, denied FROM quotas_rates_1h
            WHERE start >= %(open)s
        ) r JOIN tenants_tenant t ON t.number = r.tenant_number AND t.archived_at IS NULL
        GROUP BY 1, 2, 3
    ), ranked AS (
        SELECT *, row_number() OVER (PARTITION BY tier, endpoint ORDER BY in_60s DESC, tenant) AS place,
            count(*) OVER (PARTITION BY tier, endpoint) AS tenants,
            sum(asked) OVER (PARTITION BY tier, endpoint) AS asked_of_all
        FROM by_tenant
    )
    SELECT tier, endpoint, tenant, in_1s, in_60s, asked, denied, tenants, asked_of_all
    FROM ranked WHERE place <= %(most)s ORDER BY tier, endpoint, place
"""


@dataclass(frozen=True, slots=True)
class RankedTenant:
    tier: int
    endpoint: int
    tenant: int
    in_1s: int
    in_60s: int
    asked: int
    denied: int
    tenants: int
    asked_of_all: int


def measure_tier_usage(now: datetime) -> int:
    """Returns how many pairs of tier and endpoint had traffic. The busiest tenants are measured every 10 minutes."""
    rows = _day(now)
    denied, found = _denied(now), _nearness(now)
    calendar, near = _calendar(now, found.ended), found.tiers
    for row in rows:
        row.calendar = calendar.get((row.tier_number, row.endpoint_number), {})
        row.denied_by = denied.get((row.tier_number, row.endpoint_number), {})
        if row.endpoint_number == EVERY_ENDPOINT and row.tier_number in near:
            of_tier = near[row.tier_number]
            row.near, row.nearest = of_tier.tenants, [asdict(each) for each in of_tier.nearest]
    with transaction.atomic():
        TierUse.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["tier_number", "endpoint_number"],
            update_fields=[
                *("measured_at", "tenants", "asked", "denied", "denied_by"),
                *("busiest", "peaks", "calendar", "near", "nearest"),
            ],
        )
        TierUse.objects.filter(measured_at__lt=now, leaders_tenants=0).delete()
        if _leaders_are_old(now):
            _measure_leaders(now)
    return len(rows)


def _day(now: datetime) -> list[TierUse]:
    with connection.cursor() as cursor:
        cursor.execute(_DAY, [now - DAY])
        found = cursor.fetchall()
    return [
        TierUse(
            tier_number=tier,
            endpoint_number=endpoint,
            measured_at=now,
            tenants=tenants,
            asked=int(asked),
            denied=int(denied),
            busiest=busiest,
            peaks=asdict(PeakDemand(*map(int, peaks))),
        )
        for tier, endpoint, tenants, asked, denied, busiest, *peaks in found
    ]


def _denied(now: datetime) -> dict[Pair, dict[str, int]]:
    """Requests that each limit refused, by limit number as text (JSON keys are text)."""
    found: dict[Pair, dict[str, int]] = defaultdict(dict)
    with connection.cursor() as cursor:
        cursor.execute(_DENIED, [now - DAY, [str(outcome) for outcome in REFUSED]])
        for tier, endpoint, limit, count in cursor.fetchall():
            found[tier, endpoint][str(limit)] = int(count)
    return found


def _nearness(now: datetime) -> NearLimitsFound:
    """By tier. What each tenant is closest to goes to the summary of tenants."""
    with connection.cursor() as cursor:
        cursor.execute(f"{_BY_TENANT} ORDER BY 1", [now - DAY])
        found = measure_near_limits(cursor, now)
    store_tightest(found.tightest)
    return found


def _calendar(now: datetime, ended: Mapping[int, Uses]) -> dict[Pair, dict[str, int]]:
    """The most that one tenant of a tier has used of each calendar quota in a period of the last day."""
    tiers = dict(Tenant.objects.filter(archived_at=None).values_list("number", "tier_id"))
    found: dict[Pair, dict[str, int]] = defaultdict(dict)
    for tenant, endpoint, limit, used in (*_running(now), *_ended(ended)):
        if tenant in tiers:
            most = found[tiers[tenant], endpoint]
            most[str(limit)] = max(used, most.get(str(limit), 0))
    return found


def _running(now: datetime) -> Iterator[tuple[int, int, int, int]]:
    """Tenant, endpoint, limit and the units used in the current period."""
    rows = CalendarCounter.objects.filter(subject=b"", expires_at__gt=now, tenant_number__gt=0).order_by()
    for tenant, scope, limit, used in rows.values_list("tenant_number", "scope", "limit_number", "used").iterator():
        yield tenant, int(scope, 36) if scope else EVERY_ENDPOINT, limit, used


def _ended(ended: Mapping[int, Uses]) -> Iterator[tuple[int, int, int, int]]:
    """The same of the day before."""
    limits = dict(LimitName.objects.values_list("name", "number"))
    endpoints = {**dict(Endpoint.objects.values_list("name", "number")), EVERYWHERE: EVERY_ENDPOINT}
    for tenant, uses in ended.items():
        for (scope, limit), used in uses.items():
            yield tenant, endpoints[scope], limits[limit], used


def _leaders_are_old(now: datetime) -> bool:
    newest = TierUse.objects.order_by("-leaders_at").filter(leaders_at__isnull=False).first()
    return newest is None or newest.leaders_at is None or newest.leaders_at <= now - LEADERS_EVERY


def _measure_leaders(now: datetime) -> None:
    begin = now - SPAN
    newest = RatesDay.objects.filter(start__gte=begin).aggregate(newest=Max("start"))["newest"]
    # Rows of days exist once the day is closed; later days only have hours.
    first_open = newest + RatesDay.step if newest else begin
    with connection.cursor() as cursor:
        cursor.execute(_LEADERS, {"begin": begin, "open": first_open, "most": LEADERS})
        ranked = [RankedTenant(*map(int, row)) for row in cursor.fetchall()]
    names = dict(Tenant.objects.filter(number__in={one.tenant for one in ranked}).values_list("number", "name"))
    by_pair: dict[Pair, list[RankedTenant]] = defaultdict(list)
    for one in ranked:
        by_pair[one.tier, one.endpoint].append(one)
    for (tier, endpoint), group in by_pair.items():
        packs = _packs(group, endpoint, begin, first_open)
        leaders = [_leader(one, names.get(one.tenant, ""), packs[one.tenant]) for one in group if packs[one.tenant]]
        TierUse.objects.filter(tier_number=tier, endpoint_number=endpoint).update(
            leaders=[asdict(leader) for leader in leaders],
            leaders_at=now,
            leaders_tenants=group[0].tenants,
            leaders_asked=group[0].asked_of_all,
        )


def _packs(group: Sequence[RankedTenant], endpoint: int, begin: datetime, first_open: datetime) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {one.tenant: [] for one in group}
    which = {"tenant_number__in": list(found), "endpoint_number": endpoint}
    days = RatesDay.objects.filter(**which, start__gte=begin, start__lt=first_open)
    hours = RatesHour.objects.filter(**which, start__gte=first_open)
    for rows in (days, hours):
        for tenant, packed in rows.order_by().values_list("tenant_number", "requests"):
            found[tenant].append(packed)
    return found


def _leader(one: RankedTenant, name: str, packs: Iterable[Any]) -> BusyTenant:
    minutes = dict(unpack_histograms(merge_packed(packs)))[WINDOW_S]
    buckets, counts = minutes.pack()
    p98 = min(minutes.load_quantile(P98), one.in_60s or one.asked)
    return BusyTenant(name, one.in_1s, one.in_60s, p98, one.asked, one.denied, buckets, counts)
