"""What was used of calendar quotas, so that the loss of Redis does not give it back.

A row is the counter of one limit in one record of Redis, as the drain last saw it (quotas.usage.calendars); after a
flush the publisher writes it back (quotas.publishing.calendars). Numbers, not foreign keys, as in usage.
"""

from __future__ import annotations

from django.db import models


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
