"""Keeps the usage tables in shape: slices for the time ahead, none beyond what is kept."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection
from django.utils import timezone

from quotas.models.usage import GapRecord, UsageDay
from quotas.usage import partitions
from quotas.usage.calendars import forget_expired
from quotas.usage.closing import close_days
from quotas.usage.slots import pack_due

# A batch comes back only if Redis lost its deletion, so it is among the last ones of its shard.
REMEMBERED = timedelta(hours=2)


def keep_up(now: datetime | None = None) -> str:
    now = now or timezone.now()
    made, dropped = partitions.make_ahead(now), partitions.drop_old(now)
    forget_expired(now)
    closed, packed = close_days(now), pack_due(now)
    GapRecord.objects.filter(end__lt=partitions.oldest_kept(UsageDay, now)).delete()
    done = f"{made} slices made, {dropped} dropped, {closed} days closed, {packed} hours packed"
    return f"{done}, {forget_batches()} batch ids forgotten"


def forget_batches() -> int:
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
