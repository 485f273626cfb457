"""Writes packed seconds and rates of one day of all tenants at once, as the folds and the close of the day would."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Final

import numpy as np
from django.db import connection
from psycopg.sql import SQL, Identifier

from quotas.demo.enforcement import sum_of
from quotas.demo.traffic_history import FlowSeries
from quotas.models.usage import BEGINNING, LET_THROUGH
from quotas.models.usage_rates import EVERY_ENDPOINT, PackedSeconds, Rates, RatesDay, RatesHour
from quotas.observations.packing import groups
from quotas.observations.seconds import Seconds
from quotas.usage.partitions import ensure_partitions, partition_of
from quotas.usage.rate_aggregation import DENIED, HOUR_S, RateRow, rate_rows

SECOND: Final = timedelta(seconds=1)
FAST: Final = 1  # zlib level: somebody waits for the demo to start


@dataclass(frozen=True, slots=True)
class Load:
    """The load of one tenant on one endpoint."""

    tenant: int
    endpoint: int  # or EVERY_ENDPOINT
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class RateTableRow:
    tenant: int
    endpoint: int
    start_s: int
    values: tuple[object, ...]


def write_rates(found: Sequence[FlowSeries], day: range, *, is_closed: bool) -> None:
    """`found`: all series of a day; their counts start with it. A closed day has one row of packed seconds a series."""
    loads = list(_loads(found, day.start))
    if not loads:
        return
    own = [load for load in loads if load.endpoint != EVERY_ENDPOINT]
    packed = (row for load in own for row in (_of_day(load, day) if is_closed else _by_hour(load)))
    _copy(PackedSeconds, ("packed",), packed)
    for model in (RatesHour, RatesDay) if is_closed else (RatesHour,):
        _copy(model, RateRow.columns(), _rows(model, loads))


def _loads(found: Sequence[FlowSeries], first_s: int) -> Iterator[Load]:
    """By tenant and endpoint, and of each tenant on all its endpoints."""
    parts: dict[tuple[int, int], list[FlowSeries]] = {}
    for series in found:
        if series.tenant and series.outcome in (*LET_THROUGH, *DENIED):
            for endpoint in (series.endpoint, EVERY_ENDPOINT):
                parts.setdefault((series.tenant, endpoint), []).append(series)
    for (tenant, endpoint), of_both in sorted(parts.items(), key=lambda item: item[0]):
        seconds = seconds_of(of_both, first_s)
        if len(seconds):
            yield Load(tenant, endpoint, seconds)


def seconds_of(parts: list[FlowSeries], first_s: int) -> Seconds:
    """The sum of the series per second; they are aligned, so no sorting is needed."""
    places = np.flatnonzero(sum_of([part.counts for part in parts]))
    allowed, denied, allowed_cost, denied_cost = (np.zeros(len(places), np.int64) for _ in range(4))
    for part in parts:
        requests, cost = (allowed, allowed_cost) if part.outcome in LET_THROUGH else (denied, denied_cost)
        found = part.counts[places]
        requests += found
        cost += found * part.cost
    length = np.ones(len(places), np.int64)
    return Seconds(first_s + places, length, allowed, denied, allowed_cost, denied_cost)


def _of_day(load: Load, day: range) -> Iterator[RateTableRow]:
    start_s = day.start - day.start % (RatesDay.step // SECOND)
    yield RateTableRow(load.tenant, load.endpoint, start_s, (load.seconds.pack(FAST),))


def _by_hour(load: Load) -> Iterator[RateTableRow]:
    hours = load.seconds.starts_s // HOUR_S
    for begin, end in pairwise([*groups(hours).tolist(), len(hours)]):
        packed = load.seconds.where(slice(begin, end)).pack(FAST)
        yield RateTableRow(load.tenant, load.endpoint, int(hours[begin]) * HOUR_S, (packed,))


def _rows(model: type[Rates], loads: Sequence[Load]) -> Iterator[RateTableRow]:
    lengths = [len(load.seconds) for load in loads]
    tenants = np.repeat([load.tenant for load in loads], lengths)
    endpoints = np.repeat([load.endpoint for load in loads], lengths)
    seconds = Seconds.joined([load.seconds for load in loads])
    for row in rate_rows(tenants, endpoints, seconds, model.step // SECOND):
        yield RateTableRow(row.tenant, row.endpoint, row.start_s, row.values())


def _copy(model: type[PackedSeconds] | type[Rates], names: tuple[str, ...], rows: Iterable[RateTableRow]) -> None:
    found = [(BEGINNING + row.start_s * SECOND, row) for row in rows]
    ensure_partitions(partition_of(model, start) for start in {start for start, _ in found})
    columns = SQL(", ").join(map(Identifier, ("tenant_number", "endpoint_number", "start", *names)))
    statement = SQL("COPY {} ({}) FROM STDIN").format(Identifier(model._meta.db_table), columns)
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for start, row in found:
            copy.write_row((row.tenant, row.endpoint, start, *row.values))
