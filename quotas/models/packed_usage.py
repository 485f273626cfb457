"""The tables behind the views of the finest rollups: fresh rows of the current hour, and packed hours."""

from __future__ import annotations

from collections.abc import Mapping

from django.contrib.postgres.fields import ArrayField
from django.db import models

from quotas.models.usage import SLOT, Partitioned, Rollup, UsageMinute, UsageStep


class FreshStep(Rollup):
    step, slice, keep = UsageStep.step, SLOT, UsageStep.keep

    class Meta:
        db_table = "quotas_fresh_10s"


class FreshMinute(Rollup):
    step, slice, keep = UsageMinute.step, SLOT, UsageMinute.keep

    class Meta:
        db_table = "quotas_fresh_1m"


class Packed(Partitioned):
    """All steps of one series in one hour: one row of a few hundred bytes instead of up to 360 rows of 100 bytes."""

    pk = models.CompositePrimaryKey("slot", "tenant_number", "endpoint_number", "outcome", "limit_number")
    slot = models.DateTimeField()
    tenant_number = models.IntegerField()
    endpoint_number = models.IntegerField()
    limit_number = models.IntegerField()
    outcome = models.CharField(max_length=1)
    # Step within the hour × 2^22 + count. A step may occur several times; its count is the sum.
    entries = ArrayField(models.IntegerField())
    # Parallel to the entries, where they differ from them: counts of 2^22 and more, and costs other than the count.
    counts = ArrayField(models.BigIntegerField(null=True), null=True)
    costs = ArrayField(models.BigIntegerField(null=True), null=True)

    time_column = "slot"
    fill_percent = 100  # rarely updated

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{len(self.entries)} × {self.outcome} of tenant {self.tenant_number} in the hour of {self.slot}"


class PackedStep(Packed):
    slice, keep = UsageStep.slice, UsageStep.keep

    class Meta:
        db_table = "quotas_packed_10s"


class PackedMinute(Packed):
    slice, keep = UsageMinute.slice, UsageMinute.keep

    class Meta:
        db_table = "quotas_packed_1m"


FRESH: Mapping[type[Rollup], type[Rollup]] = {UsageStep: FreshStep, UsageMinute: FreshMinute}
PACKED: Mapping[type[Rollup], type[Packed]] = {UsageStep: PackedStep, UsageMinute: PackedMinute}
