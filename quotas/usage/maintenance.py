"""Hourly maintenance of the usage tables: creates partitions, closes past days, packs hours, drops old data."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import groupby
from typing import Final

from django.db import connection, transaction
from django.db.models import Min
from django.utils import timezone

from quotas.locks import Lock, take_lock
from quotas.models.usage import BEGINNING, GapRecord, UsageDay, floored
from quotas.models.usage_rates import FoldName, FoldState, PackedSeconds, RatesDay, RatesHour
from quotas.observations.seconds import Seconds
from quotas.usage import partitions
from quotas.usage.calendar_counters import delete_expired_counters
from quotas.usage.key_uses import delete_old_uses
from quotas.usage.packed_hours import pack_finished_hours
from quotas.usage.rates import SECOND, recompute_days, store_seconds

TENANTS_AT_ONCE: Final = 20
LATE: Final = timedelta(hours=2)  # most late counts have arrived by then

# A batch returns only if Redis lost its deletion (a restart from disk), so it is one of the last of its shard.
REMEMBERED = timedelta(hours=2)


def close_days(now: datetime) -> int:
    """Computes the rates of the days that are over; returns how many days."""
    folded = FoldState.objects.filter(name=FoldName.RATES).values_list("until", flat=True).first()
    state = FoldState.objects.filter(name=FoldName.DAYS).first()
    first = state.until if state else RatesHour.objects.aggregate(first=Min("start"))["first"]
    if folded is None or first is None:
        return 0
    day = floored(first, RatesDay.step)
    closed = 0
    while day + RatesDay.step <= min(folded, now - LATE):
        close_day(day)
        day += RatesDay.step
        FoldState.objects.update_or_create(name=FoldName.DAYS, defaults={"until": day})
        closed += 1
    return closed


def close_day(day: datetime) -> None:
    rows = RatesHour.objects.filter(start__gte=day, start__lt=day + RatesDay.step)
    tenants = rows.order_by("tenant_number").values_list("tenant_number", flat=True).distinct()
    found = list(tenants)
    for place in range(0, len(found), TENANTS_AT_ONCE):
        some = found[place : place + TENANTS_AT_ONCE]
        with transaction.atomic():
            take_lock(Lock.RATES)
            recompute_days({(tenant, int((day - BEGINNING) // SECOND)) for tenant in some})
            _compact(day, some)


def _compact(day: datetime, tenants: list[int]) -> None:
    """Joins the rows of packed seconds of a closed day into one per tenant and endpoint."""
    rows = PackedSeconds.objects.filter(tenant_number__in=tenants, start__gte=day, start__lt=day + RatesDay.step)
    found = rows.order_by("tenant_number", "endpoint_number").values_list("tenant_number", "endpoint_number", "packed")
    start = int((day - BEGINNING) // SECOND)
    joined = [
        (*key, start, Seconds.summed([Seconds.unpack(packed) for *_, packed in packs]))
        for key, packs in groupby(found.iterator(chunk_size=1_000), lambda row: row[:2])
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM quotas_seconds WHERE tenant_number = ANY (%s) AND start > %s AND start < %s",
            [tenants, day, day + RatesDay.step],
        )
    store_seconds(joined)


def maintain_usage_tables(now: datetime | None = None) -> str:
    now = now or timezone.now()
    made, dropped = partitions.create_future_partitions(now), partitions.drop_expired_partitions(now)
    delete_expired_counters(now)
    delete_old_uses(now)
    closed, packed = close_days(now), pack_finished_hours(now)
    GapRecord.objects.filter(end__lt=partitions.oldest_kept(UsageDay, now)).delete()
    done = f"{made} partitions created, {dropped} dropped, {closed} days closed, {packed} hours packed"
    return f"{done}, {delete_old_batch_ids()} batch ids deleted"


def delete_old_batch_ids() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            DELETE FROM quotas_drainbatch AS batch
            USING (SELECT shard, max(drained_at) AS last FROM quotas_drainbatch GROUP BY shard) AS newest
            WHERE batch.shard = newest.shard AND batch.drained_at < newest.last - %s * interval '1 second'
            """,
            [REMEMBERED.total_seconds()],
        )
        return int(cursor.rowcount)
