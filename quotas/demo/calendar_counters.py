"""Writes the counters of calendar quotas to Postgres; the publisher restores them to Redis as after a data loss."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from django.conf import settings

from headroom_edge import keys
from headroom_edge.algorithms import CalendarQuota
from quotas.demo.history import current_numbers, days_of, missing_days, recorded
from quotas.models import CalendarCounter, LimitName
from quotas.models.usage import BEGINNING, Outcome, UsageHour
from quotas.policies.configuration import configuration_load
from quotas.policies.layers import PolicyIndex
from quotas.policies.plans import calendar_fingerprint
from quotas.policies.resolve import resolve
from quotas.policies.spec import EVERYWHERE, Limit, to_us
from quotas.simulation.synthetic_tenants import HOUR_S
from quotas.usage.queries.utilisation import period_of
from tenants.models import Tenant

COUNTED = (Outcome.ALLOWED, Outcome.LENT)
GENERATIONS = 1 << 24  # records store 24 bits of the fingerprint


@dataclass(frozen=True, slots=True)
class Quota:
    """A calendar quota of a tenant and its current period."""

    tenant: Tenant
    limit: Limit
    algorithm: CalendarQuota
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class AllowedHour:
    tenant: int
    start: datetime
    requests: int
    cost: int


def write_counters(began: datetime, now: datetime) -> None:
    """Counts the days that are still to be written too: those requests were allowed, whatever the pages show yet."""
    quotas = list(_quotas(now))
    used: dict[tuple[int, str], int] = defaultdict(int)
    by_tenant = {tenant: list(found) for tenant, found in groupby(quotas, key=lambda quota: quota.tenant.pk)}
    for hour in (*_written(), *_unwritten(began, quotas)):
        for quota in by_tenant.get(hour.tenant, ()):
            if hour.start >= quota.start:
                used[hour.tenant, quota.limit.name] += hour.requests if quota.limit.unit == "requests" else hour.cost
    numbers = dict(LimitName.objects.values_list("name", "number"))
    CalendarCounter.objects.bulk_create(
        CalendarCounter(
            shard=keys.shard_of(quota.tenant.name, settings.HEADROOM_SHARDS),
            tenant_number=quota.tenant.pk,
            scope="",
            subject=b"",
            limit_number=numbers[quota.limit.name],
            generation=calendar_fingerprint(quota.algorithm, quota.tenant.timezone) % GENERATIONS,
            period_start=quota.start,
            used=min(quota.algorithm.limit, used[quota.tenant.pk, quota.limit.name]),
            expires_at=quota.end + (quota.end - quota.start),
            drained_at=now,
        )
        for quota in quotas
    )


def _quotas(now: datetime) -> Iterator[Quota]:
    """Those on all endpoints, by tenant."""
    part = configuration_load()
    index = PolicyIndex.of_configuration(part)
    for tenant in Tenant.objects.order_by("number"):
        for effective in resolve(index.of_tenant(part.tenants[tenant.name]), to_us(now)).everywhere:
            algorithm = effective.limit.algorithm
            if isinstance(algorithm, CalendarQuota) and effective.scope == EVERYWHERE:
                yield Quota(tenant, effective.limit, algorithm, *period_of(algorithm, tenant.timezone, now))


def _written() -> Iterator[AllowedHour]:
    rows = UsageHour.objects.filter(outcome__in=COUNTED).values_list("tenant_number", "start", "count", "cost")
    for tenant, start, count, cost in rows:
        yield AllowedHour(tenant, start, int(count), int(cost))


def _unwritten(began: datetime, quotas: Sequence[Quota]) -> Iterator[AllowedHour]:
    """The same hours of the days that are still to be written, which are whole; only where a quota counts them."""
    numbers, missing = current_numbers(), missing_days(began)
    since = {quota.tenant.name: int(quota.start.timestamp()) for quota in quotas}
    for day in days_of(missing):
        counting = {name for name, first_s in since.items() if first_s < day.stop}
        for series in recorded(int(began.timestamp()), day, numbers, counting):
            if series.outcome in COUNTED:
                for place, count in enumerate(series.counts.reshape(-1, HOUR_S).sum(axis=1).tolist()):
                    start = BEGINNING + timedelta(seconds=day.start + place * HOUR_S)
                    yield AllowedHour(series.tenant, start, count, count * series.cost)
