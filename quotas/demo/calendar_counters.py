"""Writes the counters of calendar quotas to Postgres; the publisher restores them to Redis as after a data loss."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.conf import settings
from django.db.models import Sum

from headroom_edge import keys
from headroom_edge.algorithms import CalendarQuota
from quotas.models import CalendarCounter, LimitName
from quotas.models.usage import Outcome, UsageHour
from quotas.policies.explain import standing
from quotas.policies.plans import calendar_fingerprint
from quotas.policies.resolve import Effective
from quotas.policies.spec import EVERYWHERE
from quotas.usage.queries.utilisation import period_of
from tenants.models import Tenant

GENERATIONS = 1 << 24  # records store 24 bits of the fingerprint


def write_counters(now: datetime) -> None:
    numbers = dict(LimitName.objects.values_list("name", "number"))
    rows = (row for tenant in Tenant.objects.all() for row in _counters(tenant, numbers, now))
    CalendarCounter.objects.bulk_create(rows)


def _counters(tenant: Tenant, numbers: dict[str, int], now: datetime) -> Iterator[CalendarCounter]:
    for explained in standing(tenant=tenant.name, at=now).limits:
        effective, quota = explained.effective, explained.effective.limit.algorithm
        if not isinstance(quota, CalendarQuota) or effective.scope != EVERYWHERE or effective.is_global:
            continue
        start, end = period_of(quota, tenant.timezone, now)
        yield CalendarCounter(
            shard=keys.shard_of(tenant.name, settings.HEADROOM_SHARDS),
            tenant_number=tenant.pk,
            scope="",
            subject=b"",
            limit_number=numbers[effective.limit.name],
            generation=calendar_fingerprint(quota, tenant.timezone) % GENERATIONS,
            period_start=start,
            used=min(quota.limit, _used(tenant, effective, start)),
            expires_at=end + (end - start),
            drained_at=now,
        )


def _used(tenant: Tenant, effective: Effective, since: datetime) -> int:
    """Units allowed since then, from the hourly rollup."""
    rows = UsageHour.objects.filter(tenant_number=tenant.pk, outcome=Outcome.ALLOWED, start__gte=since)
    counted = "count" if effective.limit.unit == "requests" else "cost"
    return int(rows.aggregate(used=Sum(counted))["used"] or 0)
