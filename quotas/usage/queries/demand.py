"""Recorded demand for calibration and replay: minutes and seconds of many tenants, streamed tenant by tenant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import SEEK_END
from itertools import groupby
from typing import IO, Any
from typing import Literal as OneOf

import numpy as np
from django.conf import settings
from django.db import connection
from django.db.models import Avg, Min, Sum

from headroom_edge import keys
from quotas.calibration.counts import DAY_S, MINUTE_S, Counts
from quotas.calibration.estimate import Span
from quotas.models.usage import Denial, DrainState, GapRecord, UsageDay
from quotas.models.usage_rates import PackedSeconds, RatesDay
from quotas.observations.arrays import Ints
from quotas.observations.seconds import Seconds
from quotas.simulation.tenant_replay import EndpointLoad

FINE_SECONDS = 200_000  # seconds with requests, of one series; more would tell no more about its bursts
TENANTS_AT_ONCE = 20
_HEADER_BYTES = 19
_TRAILER_BYTES = 2


@dataclass(frozen=True, slots=True)
class TrafficScope:
    """The traffic that a limit counts."""

    tenants: frozenset[int]
    endpoints: frozenset[int] | None  # None: all of them
    without: frozenset[int] = frozenset()
    unit: OneOf["requests", "cost"] = "requests"

    @property
    def column(self) -> str:
        return "count" if self.unit == "requests" else "cost"

    def has(self, endpoint: int) -> bool:
        return endpoint not in self.without if self.endpoints is None else endpoint in self.endpoints


@dataclass(frozen=True, slots=True)
class TenantLoad:
    """A tenant's requests per minute, and per second for the newest FINE_SECONDS seconds."""

    tenant: int
    allowed: Counts
    denied: Counts
    fine: Counts  # allowed and denied


def tenant_loads(traffic: TrafficScope, begin: datetime, end: datetime) -> Iterator[TenantLoad]:
    """Ordered by tenant number; only TENANTS_AT_ONCE tenants are in memory at a time."""
    tenants = sorted(traffic.tenants)
    for first in range(0, len(tenants), TENANTS_AT_ONCE):
        rows = PackedSeconds.objects.filter(
            # A closed day is one row, whose start is the first second of the day.
            tenant_number__in=tenants[first : first + TENANTS_AT_ONCE],
            start__gt=begin - RatesDay.step,
            start__lt=end,
        )
        if traffic.endpoints is not None:
            rows = rows.filter(endpoint_number__in=traffic.endpoints)
        columns = rows.order_by("tenant_number", "start").values_list("tenant_number", "endpoint_number", "packed")
        for tenant, found in groupby(columns.iterator(), key=lambda row: row[0]):
            parts = [Seconds.unpack(packed) for _, endpoint, packed in found if traffic.has(endpoint)]
            seconds = Seconds.summed(parts).between(begin.timestamp(), end.timestamp())
            if len(seconds):
                yield _tenant_load(tenant, seconds, traffic)


def _tenant_load(tenant: int, seconds: Seconds, traffic: TrafficScope) -> TenantLoad:
    allowed, denied = seconds.allowed, seconds.denied
    if traffic.unit == "cost":
        allowed, denied = seconds.allowed_cost, seconds.denied_cost
    known = np.flatnonzero((seconds.lengths == 1) & (allowed + denied > 0))[-FINE_SECONDS:]
    fine = _counts(seconds.starts_s[known], (allowed + denied)[known], 1)
    let, refused = (_counts(seconds.starts_s, units, 1).coarser(MINUTE_S) for units in (allowed, denied))
    return TenantLoad(tenant, let, refused, fine)


def endpoint_loads(tenant: int, begin: datetime, end: datetime) -> list[EndpointLoad]:
    """A tenant's requests per endpoint: per second, or per minute where only the minute is known."""
    rows = PackedSeconds.objects.filter(tenant_number=tenant, start__gt=begin - RatesDay.step, start__lt=end)
    packed = rows.order_by("endpoint_number", "start").values_list("endpoint_number", "packed")
    return [
        load
        for endpoint, parts in groupby(packed.iterator(), key=lambda row: row[0])
        for load in _loads(endpoint, Seconds.summed([Seconds.unpack(part) for _, part in parts]), begin, end)
    ]


def _loads(endpoint: int, seconds: Seconds, begin: datetime, end: datetime) -> Iterator[EndpointLoad]:
    within = seconds.between(begin.timestamp(), end.timestamp())
    for step_s in (1, MINUTE_S):
        known = within.where((within.lengths == step_s) & (within.offered > 0))
        if len(known):
            yield EndpointLoad(endpoint, step_s, known.starts_s, known.offered, known.offered_cost)


def first_seen(traffic: TrafficScope) -> dict[int, datetime]:
    """Tenant number → the day of its first request in this scope."""
    rows = UsageDay.objects.filter(tenant_number__in=traffic.tenants)
    if traffic.endpoints is not None:
        rows = rows.filter(endpoint_number__in=traffic.endpoints)
    return dict(rows.order_by().values_list("tenant_number").annotate(first=Min("start")))


def measured_until() -> datetime | None:
    """None: nothing was ever measured."""
    return DrainState.objects.values_list("drained_at", flat=True).first()


def measured_since() -> datetime | None:
    rows = GapRecord.objects.filter(start=datetime(1970, 1, 1, tzinfo=UTC)).values_list("end", flat=True)
    return max(rows, default=None)


@dataclass(frozen=True, slots=True)
class ShardGaps:
    """When counts may be missing, and in which shards (None: in all)."""

    spans: Sequence[tuple[Span, frozenset[int] | None]]

    @property
    def all(self) -> list[Span]:
        return [span for span, _ in self.spans]

    def of(self, tenant: str) -> list[Span]:
        """Those that concern the tenant of this name."""
        shard = keys.shard_of(tenant, settings.HEADROOM_SHARDS)
        return [span for span, shards in self.spans if shards is None or shard in shards]


def gaps_between(begin: datetime, end: datetime) -> ShardGaps:
    rows = [gap for gap in GapRecord.objects.within(begin, end) if not gap.before_all]
    return ShardGaps([(_span(gap, begin, end), None if gap.shards is None else frozenset(gap.shards)) for gap in rows])


def _span(gap: GapRecord, begin: datetime, end: datetime) -> Span:
    return Span(max(gap.start, begin).timestamp(), min(gap.end, end).timestamp())


def retry_shares(traffic: TrafficScope, begin: datetime, end: datetime, grace_s: float) -> Mapping[int, float]:
    """Tenant number → share of its denied requests that only retry a denied one, from its sampled subjects."""
    wait_us = mean_wait_us(traffic, begin, end)
    if wait_us is None:
        return {}
    within = timedelta(microseconds=wait_us, seconds=grace_s)
    values: list[Any] = [within, begin, end, list(traffic.tenants), *endpoint_values(traffic).values()]
    with connection.cursor() as cursor:
        cursor.execute(_RETRIES, values)
        return {tenant: min(1.0, again / denied) for tenant, again, denied in cursor.fetchall() if denied}


def mean_wait_us(traffic: TrafficScope, begin: datetime, end: datetime) -> float | None:
    """The mean Retry-After of denied requests; None: none was denied."""
    denials = Denial.objects.filter(at__gte=begin, at__lt=end, tenant_number__in=traffic.tenants, retry_us__gte=0)
    mean = denials.aggregate(mean=Avg("retry_us"))["mean"]
    return None if mean is None else float(mean)


_RETRIES = """
SELECT tenant_number, count(*) FILTER (WHERE repeats AND gap <= %s), count(*) FILTER (WHERE NOT allowed)
FROM (
    SELECT tenant_number, allowed, lag(allowed) OVER one = false AS repeats, at - lag(at) OVER one AS gap
    FROM quotas_arrival
    WHERE at >= %s AND at < %s AND tenant_number = ANY(%s)
      AND (%s OR endpoint_number = ANY(%s)) AND endpoint_number <> ALL(%s)
    WINDOW one AS (PARTITION BY tenant_number, endpoint_number, subject ORDER BY at)
) AS arrivals GROUP BY tenant_number
"""


def endpoint_values(traffic: TrafficScope) -> dict[str, Any]:
    return {
        "every": traffic.endpoints is None,
        "endpoints": list(traffic.endpoints or ()),
        "without": list(traffic.without),
    }


def copied_rows(file: IO[bytes], statement: str, columns: Sequence[tuple[str, str]]) -> np.ndarray[Any, Any]:
    """Copies the rows to the file and maps it: binary COPY rows have a fixed width, so the file is an array.

    The connection is busy until the COPY ends, so the rows are spooled first and processed afterwards.
    """
    row = np.dtype(
        [("fields", ">i2"), *(part for name, kind in columns for part in ((f"{name}_bytes", ">i4"), (name, kind)))]
    )
    skip = _HEADER_BYTES
    with connection.cursor() as cursor, cursor.copy(statement) as copied:
        for data in copied:
            file.write(data[skip:])
            skip = max(0, skip - len(data))
    file.truncate(file.tell() - _TRAILER_BYTES)
    return np.memmap(file, row, "r") if file.seek(0, SEEK_END) else np.empty(0, row)


def _counts(starts: Ints, units: Ints, step_s: int) -> Counts:
    some = units > 0
    return Counts(step_s, starts[some], units[some].astype(np.float64))


def days_ago(moment: datetime, days: float) -> datetime:
    return moment - timedelta(seconds=days * DAY_S)


def askers_read(begin: datetime, end: datetime) -> list[int]:
    """Numbers of the tenants, the busiest first; 0, which is nobody, left out."""
    rows = UsageDay.objects.filter(start__gte=begin - UsageDay.step, start__lt=end, tenant_number__gt=0)
    sums = rows.order_by().values_list("tenant_number").annotate(asked=Sum("count"))
    return [number for number, _ in sorted(sums, key=lambda pair: (-pair[1], pair[0]))]
