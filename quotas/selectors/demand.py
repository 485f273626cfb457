"""Demand as the rollups have it: minutes and seconds of many tenants, streamed tenant by tenant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import SEEK_END
from itertools import groupby, pairwise
from tempfile import TemporaryFile
from typing import IO, Any
from typing import Literal as OneOf

import numpy as np
from django.db import connection
from django.db.models import Avg, Min, Sum
from psycopg.sql import SQL, Identifier, Literal

from quotas.calibration.counts import DAY_S, MINUTE_S, Counts, joined
from quotas.calibration.estimate import Span
from quotas.models.rates import PackedSeconds
from quotas.models.usage import LET_THROUGH, Denial, DrainState, GapRecord, Outcome, UsageDay, UsageMinute
from quotas.observations.seconds import Seconds
from quotas.simulation.arrays import Ints
from quotas.simulation.fleet import Load

ASKED_IN_VAIN = (Outcome.DENIED, Outcome.OVERFLOW)
FINE_SECONDS = 200_000  # with requests, of one series: more say no more of its bursts
_HEADER_BYTES = 19
_TRAILER_BYTES = 2
_COLUMNS = (("tenant", ">i4"), ("minute", ">i4"), ("allowed", ">i8"), ("denied", ">i8"))


@dataclass(frozen=True, slots=True)
class Traffic:
    """Which load a limit counts."""

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
class TenantMinutes:
    tenant: int
    allowed: Counts
    denied: Counts


def minutes_read(traffic: Traffic, begin: datetime, end: datetime) -> Iterator[TenantMinutes]:
    """In order of the tenants' numbers. The database sorts, and a file holds what memory need not."""
    with TemporaryFile() as file:
        rows = spooled(file, _statement(traffic, begin, end), _COLUMNS)
        bounds = np.flatnonzero(np.diff(rows["tenant"])) + 1
        for first, last in pairwise((0, *bounds.tolist(), len(rows))):
            if last > first:
                yield _tenant_minutes(rows[first:last])


def seconds_of(tenant: int, traffic: Traffic, begin: datetime, end: datetime) -> Counts:
    """Offered in each second, as far back as `FINE_SECONDS` of them reach."""
    rows = PackedSeconds.objects.filter(tenant_number=tenant, start__gte=begin, start__lt=end)
    if traffic.endpoints is not None:
        rows = rows.filter(endpoint_number__in=traffic.endpoints)
    parts: list[Counts] = []
    newest_first = rows.order_by("-start").values_list("endpoint_number", "packed", "start")
    held = 0
    for _, hour in groupby(newest_first.iterator(), key=lambda row: row[2]):
        found = [Seconds.unpack(packed) for endpoint, packed, _ in hour if traffic.has(endpoint)]
        if found:
            parts.append(_offered(Seconds.joined(found), traffic))
            held += len(parts[-1])
        if held >= FINE_SECONDS:
            break
    return joined(parts, 1)


def loads_of(tenant: int, begin: datetime, end: datetime) -> list[Load]:
    """All that a tenant asked for, endpoint by endpoint: in seconds, or where none are kept in minutes."""
    rows = PackedSeconds.objects.filter(tenant_number=tenant, start__gte=begin, start__lt=end)
    packed = rows.order_by("endpoint_number", "start").values_list("endpoint_number", "packed")
    found = [
        _load(endpoint, Seconds.joined([Seconds.unpack(part) for _, part in parts]))
        for endpoint, parts in groupby(packed.iterator(), key=lambda row: row[0])
        if endpoint >= 0
    ]
    return found or list(_minute_loads(tenant, begin, end))


def asking_tenants(begin: datetime, end: datetime) -> list[int]:
    """Numbers of the tenants that asked for anything; 0, which is nobody, left out."""
    rows = UsageDay.objects.filter(start__gte=begin - UsageDay.step, start__lt=end, tenant_number__gt=0)
    return sorted(rows.order_by().values_list("tenant_number", flat=True).distinct())


def _load(endpoint: int, seconds: Seconds) -> Load:
    known = seconds.where((seconds.lengths == 1) & (seconds.offered > 0))
    return Load(endpoint, 1, known.starts_s, known.offered, known.offered_cost)


def _minute_loads(tenant: int, begin: datetime, end: datetime) -> Iterator[Load]:
    rows = UsageMinute.objects.filter(tenant_number=tenant, start__gte=begin, start__lt=end)
    asked = rows.filter(outcome__in=[*LET_THROUGH, *ASKED_IN_VAIN]).order_by("endpoint_number", "start")
    sums = asked.values_list("endpoint_number", "start").annotate(requests=Sum("count"), units=Sum("cost"))
    for endpoint, found in groupby(sums.iterator(), key=lambda row: row[0]):
        columns = [(int(start.timestamp()), int(count), int(cost)) for _, start, count, cost in found]
        yield Load(endpoint, MINUTE_S, *np.array(columns, np.int64).T)


def first_seen(traffic: Traffic) -> dict[int, datetime]:
    """On which day each tenant first asked for any of it."""
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


def gaps_between(begin: datetime, end: datetime) -> list[Span]:
    rows = GapRecord.objects.filter(end__gt=begin, start__lt=end).order_by("start")
    return [
        Span(max(gap.start, begin).timestamp(), min(gap.end, end).timestamp()) for gap in rows if not gap.before_all
    ]


def retry_shares(traffic: Traffic, begin: datetime, end: datetime, grace_s: float) -> Mapping[int, float]:
    """Of each tenant's denied requests, how many only repeat one that was denied before, by its sampled subjects."""
    wait_us = mean_wait_us(traffic, begin, end)
    if wait_us is None:
        return {}
    within = timedelta(microseconds=wait_us, seconds=grace_s)
    values: list[Any] = [within, begin, end, list(traffic.tenants), *endpoint_values(traffic).values()]
    with connection.cursor() as cursor:
        cursor.execute(_RETRIES, values)
        return {tenant: min(1.0, again / denied) for tenant, again, denied in cursor.fetchall() if denied}


def mean_wait_us(traffic: Traffic, begin: datetime, end: datetime) -> float | None:
    """What denied requests were told to wait; None: none was denied."""
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
_MINUTES = SQL("""
COPY (
    SELECT tenant_number, (extract(epoch FROM start) / 60)::int4,
           coalesce(sum({column}) FILTER (WHERE outcome = ANY({allowed})), 0)::int8,
           coalesce(sum({column}) FILTER (WHERE outcome = ANY({denied})), 0)::int8
    FROM quotas_usage_1m
    WHERE start >= {begin} AND start < {end} AND slot >= date_bin('1 hour', {begin}, 'epoch') AND slot < {end}
      AND tenant_number = ANY({tenants}::int4[])
      AND ({every} OR endpoint_number = ANY({endpoints}::int4[])) AND endpoint_number <> ALL({without}::int4[])
    GROUP BY 1, 2 ORDER BY 1, 2
) TO STDOUT (FORMAT binary)
""")


def endpoint_values(traffic: Traffic) -> dict[str, Any]:
    return {
        "every": traffic.endpoints is None,
        "endpoints": list(traffic.endpoints or ()),
        "without": list(traffic.without),
    }


def spooled(file: IO[bytes], statement: str, columns: Sequence[tuple[str, str]]) -> np.ndarray[Any, Any]:
    """As binary COPY gives them: every row has the same width, so the file is an array already.

    Other queries have to wait until a copy is through, so nothing is worked out meanwhile.
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


def _statement(traffic: Traffic, begin: datetime, end: datetime) -> str:
    values = {
        "allowed": list(map(str, LET_THROUGH)),
        "denied": list(map(str, ASKED_IN_VAIN)),
        "begin": begin,
        "end": end,
        "tenants": list(traffic.tenants),
        **endpoint_values(traffic),
    }
    literals = {name: Literal(value) for name, value in values.items()}
    return _MINUTES.format(column=Identifier(traffic.column), **literals).as_string(connection.connection)


def _tenant_minutes(rows: np.ndarray[Any, Any]) -> TenantMinutes:
    starts = rows["minute"].astype(np.int64) * MINUTE_S
    return TenantMinutes(int(rows["tenant"][0]), *(_counts(starts, rows[name]) for name in ("allowed", "denied")))


def _counts(starts: Ints, units: np.ndarray[Any, Any]) -> Counts:
    some = units > 0
    return Counts(MINUTE_S, starts[some], units[some].astype(np.float64))


def _offered(seconds: Seconds, traffic: Traffic) -> Counts:
    units = seconds.offered if traffic.unit == "requests" else seconds.offered_cost
    known = (seconds.lengths == 1) & (units > 0)
    return Counts(1, seconds.starts_s[known], units[known].astype(np.float64))


def days_ago(moment: datetime, days: float) -> datetime:
    return moment - timedelta(seconds=days * DAY_S)
