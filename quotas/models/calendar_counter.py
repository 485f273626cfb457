"""Counters of calendar quotas, kept in Postgres so that a loss of Redis does not give the quota back.

A row is the counter of one limit in one Redis record, as the drain last saw it (quotas.usage.calendar_counters). After
a flush the publisher writes it back (quotas.publishing.calendar_restore). Rows hold numbers, not foreign keys, as usage
does: they outlive what they refer to.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import models

from quotas.models.revision import Outbox, Revision
from quotas.models.usage import BEGINNING, DrainState, GapRecord, ShardOwner

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


def record_emptied_redis(at: datetime, run_id: str, shards: Sequence[int] | None = None) -> GapRecord | None:
    """Records a gap when shards are found empty on the server with this run id.

    `shards`: those of that server that were found empty; None: the only server was emptied. Returns None if it is
    recorded already, if nothing had been published yet, or if it is another server, which the drain records itself.
    """
    state = DrainState.objects.filter(id=1).first()
    if state is None or not was_ever_published():
        return None
    if shards is None:
        known = [ShardOwner(state.run_id, state.node, state.drained_at, ())]
    else:
        known = state.last_owners(shards)
    known = [owner for owner in known if owner.run_id == run_id and owner.drained_at < at and _published_before(owner)]
    gaps = [_record_emptied(owner.drained_at, at, None if shards is None else list(owner.shards)) for owner in known]
    return next((gap for gap in gaps if gap), None)


def _published_before(owner: ShardOwner) -> bool:
    drained_us = (owner.drained_at - BEGINNING).total_seconds() * 1_000_000
    return Revision.objects.filter(published_us__lt=drained_us).exists()


def _record_emptied(start: datetime, end: datetime, shards: list[int] | None) -> GapRecord | None:
    gap, is_new = GapRecord.objects.update_or_create(start=start, reason=EMPTIED, shards=shards, defaults={"end": end})
    return gap if is_new else None


def was_ever_published() -> bool:
    """Whether anything was ever published: until then the first revision is in the outbox."""
    return not Outbox.objects.filter(revision=1).exists()
