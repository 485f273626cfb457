"""What happened: rollups of counters, denials, sampled arrivals, and what the drain remembers of itself.

Rows name tenants, endpoints and limits by their numbers, not by foreign keys: what was counted stays
true after the thing itself is gone, and a batch with a number nobody knows must still be kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Self

from django.db import models

SLOT = timedelta(hours=1)
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class Outcome(models.TextChoices):
    ALLOWED = "a", "allowed"
    DENIED = "d", "denied by a limit"
    TOO_BIG = "z", "cost above what the limit can ever give"
    SUSPENDED = "p", "tenant suspended"
    OVERFLOW = "o", "denied among too many new subjects"
    BYPASSED = "b", "let through by a bypass"
    UNKNOWN = "u", "tenant unknown"
    DEGRADED_OPEN = "g", "let through without Redis"
    DEGRADED_CLOSED = "c", "refused without Redis"
    # The three below are counted beside one of those above, so they are in no sum of requests.
    SHADOW_DENIES = "w", "a shadow limit would deny"
    CANDIDATE_DENIES = "n", "a candidate would deny what was allowed"
    CANDIDATE_ALLOWS = "y", "a candidate would allow what was denied"


LET_THROUGH = (Outcome.ALLOWED, Outcome.BYPASSED, Outcome.DEGRADED_OPEN)
REFUSED = (
    Outcome.DENIED,
    Outcome.TOO_BIG,
    Outcome.SUSPENDED,
    Outcome.OVERFLOW,
    Outcome.UNKNOWN,
    Outcome.DEGRADED_CLOSED,
)


class Partitioned(models.Model):
    """A table in slices of time; a slice is dropped once `settings.HEADROOM_KEEP_DAYS[keep]` days have passed."""

    time_column: ClassVar[str]
    slice: ClassVar[timedelta]
    keep: ClassVar[str]
    # Rows are added to many times: room on the page keeps those updates out of the index.
    fill_percent: ClassVar[int] = 70

    class Meta:
        abstract = True


class Rollup(Partitioned):
    """Sparse: a row only where something was counted in [start, start + step)."""

    pk = models.CompositePrimaryKey("start", "tenant_number", "endpoint_number", "outcome", "limit_number")
    start = models.DateTimeField()
    count = models.BigIntegerField()
    cost = models.BigIntegerField()
    tenant_number = models.IntegerField()
    endpoint_number = models.IntegerField()
    limit_number = models.IntegerField()
    outcome = models.CharField(max_length=1)  # an Outcome, or a letter of a newer library

    time_column = "start"
    step: ClassVar[timedelta]

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.count} × {self.outcome} of tenant {self.tenant_number} in {self.step} from {self.start}"


class FineRollupSet(models.QuerySet["FineRollup"]):
    def filter(self, *args: Any, **conditions: Any) -> Self:
        """A condition on `start` is one on `slot` too, by which Postgres finds what is packed."""
        return super().filter(*args, **conditions, **dict(_slots(conditions)))


def _slots(conditions: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if "start__gte" in conditions:
        yield "slot__gte", slot_of(conditions["start__gte"])
    if "start__lt" in conditions:
        yield "slot__lt", conditions["start__lt"]
    if "start__in" in conditions:
        yield "slot__in", sorted({slot_of(start) for start in conditions["start__in"]})


def slot_of(moment: datetime) -> datetime:
    return moment - (moment - BEGINNING) % SLOT


class FineRollup(Rollup):
    """A view of rows while they are fresh, and of those that are packed by the hour. Written through these two."""

    slot = models.DateTimeField()  # the hour that `start` lies in

    objects = FineRollupSet.as_manager()

    class Meta:
        abstract = True
        managed = False


class UsageStep(FineRollup):
    step = timedelta(seconds=10)
    slice = timedelta(hours=6)
    keep = "usage_10s"

    class Meta:
        db_table = "quotas_usage_10s"
        managed = False


class UsageMinute(FineRollup):
    step = timedelta(minutes=1)
    slice = timedelta(days=1)
    keep = "usage_1m"

    class Meta:
        db_table = "quotas_usage_1m"
        managed = False


class UsageHour(Rollup):
    step = timedelta(hours=1)
    slice = timedelta(days=10)
    keep = "usage_1h"

    class Meta:
        db_table = "quotas_usage_1h"


class UsageDay(Rollup):
    """Days of UTC, so that a month of a fleet is thirty rows a series and not 720."""

    step = timedelta(days=1)
    slice = timedelta(days=100)
    keep = "usage_1d"

    class Meta:
        db_table = "quotas_usage_1d"


class Denial(Partitioned):
    """One refused request, to explain a 429. `digest` tells apart what happened in one microsecond."""

    pk = models.CompositePrimaryKey("at", "tenant_number", "digest")
    at = models.DateTimeField()
    digest = models.BigIntegerField()
    tenant_number = models.IntegerField()
    endpoint_number = models.IntegerField()
    limit_number = models.IntegerField()
    reason = models.CharField(max_length=32)
    cost = models.BigIntegerField()
    retry_us = models.BigIntegerField()  # -1: it can never pass
    revision = models.BigIntegerField()
    subject = models.BinaryField(max_length=16)  # keyed hash; empty: the tenant itself

    time_column = "at"
    slice = timedelta(days=1)
    keep = "denials"

    class Meta:
        db_table = "quotas_denial"
        indexes = [models.Index(fields=["tenant_number", "-at"], name="denial_of_tenant")]

    def __str__(self) -> str:
        return f"{self.reason} of tenant {self.tenant_number} at {self.at}"


class Arrival(Partitioned):
    """One request of a sampled subject."""

    pk = models.CompositePrimaryKey("tenant_number", "endpoint_number", "at", "subject")
    at = models.DateTimeField()
    subject = models.BigIntegerField()
    cost = models.BigIntegerField()
    tenant_number = models.IntegerField()
    endpoint_number = models.IntegerField()
    allowed = models.BooleanField()

    time_column = "at"
    slice = timedelta(days=1)
    keep = "arrivals"

    class Meta:
        db_table = "quotas_arrival"

    def __str__(self) -> str:
        return f"tenant {self.tenant_number} at {self.at}"


ROLLUPS: tuple[type[Rollup], ...] = (UsageStep, UsageMinute, UsageHour, UsageDay)


class DrainBatch(models.Model):
    """A batch whose counts are in the rollups. Its id makes a second try harmless."""

    id = models.UUIDField(primary_key=True)
    shard = models.IntegerField()
    drained_at = models.DateTimeField()
    run_id = models.CharField(max_length=40)
    rows = models.IntegerField()

    class Meta:
        indexes = [models.Index(fields=["shard", "drained_at"], name="drain_batch_of_shard")]

    def __str__(self) -> str:
        return f"{self.id} of shard {self.shard}"


class DrainState(models.Model):
    """One row: what the last drain saw."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    drained_at = models.DateTimeField()  # Redis time: what was counted before is in the rollups
    run_id = models.CharField(max_length=40)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="one_drain_state")]

    def __str__(self) -> str:
        return f"drained {self.drained_at:%Y-%m-%d %H:%M:%S}"


class GapRecord(models.Model):
    """A time for which counts may be missing: shown as a gap, never as a zero."""

    start = models.DateTimeField()
    end = models.DateTimeField(db_index=True)
    reason = models.CharField(max_length=200)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(end__gte=models.F("start")), name="gap_ends_after_start")
        ]

    def __str__(self) -> str:
        return f"{self.start:%Y-%m-%d %H:%M:%S} to {self.end:%H:%M:%S}: {self.reason}"

    @property
    def before_all(self) -> bool:
        """The time before the first measurement: nothing can have been counted in it."""
        return self.start == BEGINNING
