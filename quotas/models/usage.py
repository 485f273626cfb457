"""Usage: rollups, denials, sampled arrivals, and the state of the drain.

Rows refer to tenants, endpoints and limits by number, not by foreign key: counts outlive what they refer to, and a
batch with an unknown number must still be stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models

SLOT = timedelta(hours=1)
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


def floored(moment: datetime, step: timedelta) -> datetime:
    """The start of the step that it is in; steps are counted in UTC."""
    return moment - (moment - BEGINNING) % step


class Outcome(models.TextChoices):
    ALLOWED = "a", "allowed"
    LENT = "l", "allowed with a loan from a pool"  # its limit is the one that lent
    DENIED = "d", "denied by a limit"
    TOO_BIG = "z", "cost above what the limit can ever give"
    SUSPENDED = "p", "tenant suspended"
    OVERFLOW = "o", "denied among too many new subjects"
    BYPASSED = "b", "let through by a bypass"
    UNKNOWN = "u", "tenant unknown"
    DEGRADED_OPEN = "g", "let through without Redis"
    DEGRADED_CLOSED = "c", "refused without Redis"
    # The three below are counted in addition to one of those above, so sums of requests leave them out.
    SHADOW_DENIES = "w", "a shadow limit would deny"
    CANDIDATE_DENIES = "n", "a candidate would deny what was allowed"
    CANDIDATE_ALLOWS = "y", "a candidate would allow what was denied"


LET_THROUGH = (Outcome.ALLOWED, Outcome.LENT, Outcome.BYPASSED, Outcome.DEGRADED_OPEN)
REFUSED = (
    Outcome.DENIED,
    Outcome.TOO_BIG,
    Outcome.SUSPENDED,
    Outcome.OVERFLOW,
    Outcome.UNKNOWN,
    Outcome.DEGRADED_CLOSED,
)


class Partitioned(models.Model):
    """A table partitioned by time into pieces of length `slice`, kept for `settings.HEADROOM_KEEP_DAYS[keep]` days."""

    time_column: ClassVar[str]
    slice: ClassVar[timedelta]
    keep: ClassVar[str]
    # Rows are updated often. Free room on the page lets Postgres update them without touching the index.
    fill_percent: ClassVar[int] = 70

    class Meta:
        abstract = True


class Rollup(Partitioned):
    """Sums over [start, start + step). Sparse: there is a row only where something was counted."""

    pk = models.CompositePrimaryKey("start", "tenant_number", "endpoint_number", "outcome", "limit_number")
    start = models.DateTimeField()
    count = models.BigIntegerField()
    cost = models.BigIntegerField()
    tenant_number = models.IntegerField()
    endpoint_number = models.IntegerField()
    limit_number = models.IntegerField()
    outcome = models.CharField(max_length=1)  # an Outcome, or an unknown letter from a newer Lua library

    time_column = "start"
    step: ClassVar[timedelta]

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.count} × {self.outcome} of tenant {self.tenant_number} in {self.step} from {self.start}"


class FineRollupSet(models.QuerySet["FineRollup"]):
    def filter(self, *args: Any, **conditions: Any) -> Self:
        """Adds the same condition on `slot`, which lets Postgres find packed rows by index."""
        return super().filter(*args, **conditions, **dict(_slots(conditions)))


def _slots(conditions: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if "start__gte" in conditions:
        yield "slot__gte", slot_of(conditions["start__gte"])
    if "start__lt" in conditions:
        yield "slot__lt", conditions["start__lt"]
    if "start__in" in conditions:
        yield "slot__in", sorted({slot_of(start) for start in conditions["start__in"]})


def slot_of(moment: datetime) -> datetime:
    return floored(moment, SLOT)


class FineRollup(Rollup):
    """A view over fresh rows and packed hours (quotas.models.packed_usage), which are written instead of it."""

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
    """UTC days, so that a month is 30 rows per series instead of 720."""

    step = timedelta(days=1)
    slice = timedelta(days=100)
    keep = "usage_1d"

    class Meta:
        db_table = "quotas_usage_1d"


class Denial(Partitioned):
    """One denied request, to explain a 429. `digest` tells apart denials in the same microsecond."""

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
    subject = models.BinaryField(max_length=16)  # keyed hash; empty: the tenant as a whole

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
    """A batch that is stored. Its id makes a second attempt harmless."""

    id = models.UUIDField(primary_key=True)
    shard = models.IntegerField()
    drained_at = models.DateTimeField()
    run_id = models.CharField(max_length=40)
    rows = models.IntegerField()

    class Meta:
        indexes = [models.Index(fields=["shard", "drained_at"], name="drain_batch_of_shard")]

    def __str__(self) -> str:
        return f"{self.id} of shard {self.shard}"


@dataclass(frozen=True, slots=True)
class ShardOwner:
    """The server that some shards were last drained from."""

    run_id: str  # of its process
    node: str  # its address; empty: not known
    drained_at: datetime  # by its clock
    shards: tuple[int, ...]

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> ShardOwner:
        drained_at = datetime.fromisoformat(row["drained_at"])
        return cls(row["run_id"], row["node"], drained_at, tuple(row["shards"]))

    def as_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "node": self.node,
            "drained_at": self.drained_at.isoformat(),
            "shards": list(self.shards),
        }


class DrainState(models.Model):
    """The state of the last drain; one row.

    A single server needs `run_id` and `node` only. On a cluster, `owners` says more about the shards that it names.
    """

    id = models.SmallIntegerField(primary_key=True, default=1)
    # Redis time: everything counted before is in the log, unless `owners` has an earlier time for its shards.
    drained_at = models.DateTimeField()
    run_id = models.CharField(max_length=40)
    node = models.CharField(max_length=255, blank=True, default="", db_default="")
    owners = models.JSONField(default=list, db_default=[])

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="one_drain_state")]

    def __str__(self) -> str:
        return f"drained {self.drained_at:%Y-%m-%d %H:%M:%S}"

    def last_owners(self, shards: Iterable[int]) -> list[ShardOwner]:
        """Every shard once."""
        wanted = set(shards)
        found = [ShardOwner.parse(row) for row in self.owners]
        parts = [replace(owner, shards=tuple(sorted(wanted.intersection(owner.shards)))) for owner in found]
        others = wanted.difference(*(owner.shards for owner in found))
        parts.append(ShardOwner(self.run_id, self.node, self.drained_at, tuple(sorted(others))))
        return [part for part in parts if part.shards]

    def drained_of(self, shards: Iterable[int]) -> datetime:
        """Everything counted before in these shards is in the log."""
        return min((owner.drained_at for owner in self.last_owners(shards)), default=self.drained_at)


# The reason of the gap before all measurements while the demo's older days are still being written.
OLDER_FOLLOWS = "Older history is still being filled in."


class GapRecordSet(models.QuerySet["GapRecord"]):
    def within(self, begin: datetime, end: datetime) -> Self:
        return self.filter(end__gt=begin, start__lt=end).order_by("start")

    def of_shards(self, shards: Iterable[int] | None) -> Self:
        """Those that concern any of the shards; None: all gaps."""
        if shards is None:
            return self.all()
        return self.filter(models.Q(shards=None) | models.Q(shards__overlap=sorted(set(shards))))


class GapRecord(models.Model):
    """A period for which counts may be missing. Charts show it as a gap, never as zero."""

    start = models.DateTimeField()
    end = models.DateTimeField(db_index=True)
    reason = models.CharField(max_length=200)
    # Whose tenants it concerns; null: everybody.
    shards = ArrayField(models.IntegerField(), null=True, blank=True)

    objects = GapRecordSet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(end__gte=models.F("start")), name="gap_ends_after_start")
        ]

    def __str__(self) -> str:
        return f"{self.start:%Y-%m-%d %H:%M:%S} to {self.end:%H:%M:%S}: {self.words}"

    @property
    def before_all(self) -> bool:
        """Whether it is the time before the first measurement."""
        return self.start == BEGINNING

    @property
    def words(self) -> str:
        """The reason, and which part is concerned, for views over everybody."""
        if self.shards is None:
            return self.reason
        total = settings.HEADROOM_SHARDS
        return f"{self.reason} Counts of {len(self.shards)} of {total} shards may be missing."
