"""Counters of calendar quotas, kept in Postgres so that a loss of Redis does not give the quota back.

A row is the counter of one limit in one Redis record, as the drain last saw it (quotas.usage.calendar_counters). After
a flush the publisher writes it back (quotas.publishing.calendar_restore). Rows hold numbers, not foreign keys, as usage
does: they outlive what they refer to.
"""

from __future__ import annotations

from datetime import datetime

from django.db import models

from quotas.models.revision import Outbox, Revision
from quotas.models.usage import BEGINNING, DrainState, GapRecord

EMPTIED = "Redis was emptied; counts since the last drain are lost."


class CalendarCounter(models.Model):
    pk = models.CompositePrimaryKey("shard", "tenant_number", "scope", "subject", "limit_number")
    shard = models.IntegerField()  # this and the tenant's number as headroom_edge.keys has them for global limits
    tenant_number = models.IntegerField()
    scope = models.CharField(max_length=128)  # as in the record's key; empty: `*`
    subject = models.BinaryField(max_length=256)  # sealed (tenants.secrets); empty: the tenant as a whole
    limit_number = models.IntegerField()
    generation = models.IntegerField()  # of the parameters it was counted under, as records tell them apart
    period_start = models.DateTimeField()
    used = models.BigIntegerField()
    expires_at = models.DateTimeField(db_index=True)  # with the record
    drained_at = models.DateTimeField()

    class Meta:
        db_table = "quotas_calendar"

    def __str__(self) -> str:
        return f"{self.used} of limit {self.limit_number} used by tenant {self.tenant_number} since {self.period_start}"


def record_emptied_redis(at: datetime, run_id: str) -> GapRecord | None:
    """Records a gap when shards are found empty.

    Returns None if that is recorded already, if nothing had been published yet, or if it is another server, which the
    drain records itself.
    """
    state = DrainState.objects.filter(id=1).first()
    if state is None or state.run_id != run_id or state.drained_at >= at or not was_ever_published():
        return None
    drained_us = (state.drained_at - BEGINNING).total_seconds() * 1_000_000
    if not Revision.objects.filter(published_us__lt=drained_us).exists():
        return None
    gap, is_new = GapRecord.objects.update_or_create(start=state.drained_at, reason=EMPTIED, defaults={"end": at})
    return gap if is_new else None


def was_ever_published() -> bool:
    """Whether anything was ever published: until then the first revision is in the outbox."""
    return not Outbox.objects.filter(revision=1).exists()
