"""Writes packed seconds and rates of a tenant's whole history at once, as the folds would have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
class RateTableRow:
    tenant: int
    endpoint: int
    start_s: int
    values: tuple[object, ...]


def write_rates(of_tenant: list[FlowSeries], first_s: int) -> None:
    """`of_tenant`: all series of one tenant; their counts start at `first_s`."""
    counted = [series for series in of_tenant if series.tenant and series.outcome in (*LET_THROUGH, *DENIED)]
    if not counted:
        return
    tenant, end_s = counted[0].tenant, first_s + len(counted[0].counts)
    for number in sorted({series.endpoint for series in counted}):
        asked = seconds_of([series for series in counted if series.endpoint == number], first_s)
        _copy(PackedSeconds, ("packed",), _by_hour(tenant, number, asked))
        _write_rates(tenant, number, asked, end_s)
    _write_rates(tenant, EVERY_ENDPOINT, seconds_of(counted, first_s), end_s)


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


def _by_hour(tenant: int, endpoint: int, asked: Seconds) -> Iterator[RateTableRow]:
    hours = asked.starts_s // HOUR_S
    for begin, end in pairwise([*groups(hours).tolist(), len(asked)]):
        yield RateTableRow(tenant, endpoint, int(hours[begin]) * HOUR_S, (asked.where(slice(begin, end)).pack(FAST),))


def _write_rates(tenant: int, endpoint: int, asked: Seconds, end_s: int) -> None:
    """Writes the rates of hours, and of the days that are over."""
    today_s = _begin_s(RatesDay, end_s - 1)
    _copy(RatesHour, RateRow.columns(), _rows(RatesHour, tenant, endpoint, asked))
    _copy(RatesDay, RateRow.columns(), _rows(RatesDay, tenant, endpoint, asked.between(0, today_s)))


def _rows(model: type[Rates], tenant: int, endpoint: int, asked: Seconds) -> Iterator[RateTableRow]:
    tenants, endpoints = np.full(len(asked), tenant), np.full(len(asked), endpoint)
    for row in rate_rows(tenants, endpoints, asked, model.step // SECOND) if len(asked) else ():
        yield RateTableRow(tenant, endpoint, row.start_s, row.values())


def _begin_s(model: type[Rates], second: int) -> int:
    return second - second % (model.step // SECOND)


def _copy(model: type[PackedSeconds] | type[Rates], names: tuple[str, ...], rows: Iterable[RateTableRow]) -> None:
    found = [(BEGINNING + row.start_s * SECOND, row) for row in rows]
    if not found:
        return
    ensure_partitions(partition_of(model, start) for start in {start for start, _ in found})
    columns = SQL(", ").join(map(Identifier, ("tenant_number", "endpoint_number", "start", *names)))
    statement = SQL("COPY {} ({}) FROM STDIN").format(Identifier(model._meta.db_table), columns)
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for start, row in found:
            copy.write_row((row.tenant, row.endpoint, start, *row.values))
