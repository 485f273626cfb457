"""Stores packed seconds, and the peaks and histograms of rates computed from them.

A row is always recomputed from everything known of its hour and replaced as a whole, so late counts change it as if
they had come in time. Everything here runs within the caller's transaction, under Lock.RATES.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

import numpy as np
from psycopg.sql import SQL, Identifier

from quotas.locks import Lock, take_lock
from quotas.models.usage import BEGINNING, Partitioned
from quotas.models.usage_rates import PackedSeconds, Rates, RatesDay, RatesHour
from quotas.observations.cells import Cells
from quotas.observations.seconds import Seconds
from quotas.usage.partitions import ensure_partitions, oldest_kept, partition_of
from quotas.usage.postgres_copy import like, staged
from quotas.usage.rate_aggregation import LoadColumns, RateRow, day_rows, hour_rows

SECOND: Final = timedelta(seconds=1)
DAY_S: Final = 86_400
ROWS_AT_ONCE: Final = 400  # of packed seconds; a full row has 3,600 lines
LINES_AT_ONCE: Final = 500_000

_REPLACE = SQL("""
    INSERT INTO {table} ({columns}) SELECT {columns} FROM staged
    ON CONFLICT (tenant_number, endpoint_number, start) DO UPDATE SET {assignments}
""")
_KEY = ("tenant_number", "endpoint_number", "start")


def add_rates(cells: Cells, now: datetime) -> None:
    oldest = int((oldest_kept(PackedSeconds, now) - BEGINNING) // SECOND)
    load = LoadColumns.of_cells(cells.where(cells.start >= oldest)).summed()
    take_lock(Lock.RATES)
    today_s = int((now - BEGINNING) // SECOND) // DAY_S * DAY_S
    for part in _pieces(load):
        _add(part, today_s)


def _pieces(load: LoadColumns) -> Iterator[LoadColumns]:
    """Cuts the load into pieces of bounded size, never within a tenant: its endpoints are summed together."""
    if not len(load):
        return
    first = np.flatnonzero(np.diff(load.tenants, prepend=-1))
    touched = np.zeros(len(load), np.int64)
    touched[np.flatnonzero(np.diff(load.rows, prepend=-1) | np.diff(load.endpoints, prepend=-1))] = 1
    ends = [*first[1:].tolist(), len(load)]
    begin = size = 0
    for start, end in zip(first.tolist(), ends, strict=True):
        rows = int(touched[start:end].sum())
        if start > begin and (size + rows > ROWS_AT_ONCE or end - begin > LINES_AT_ONCE):
            yield load.where(slice(begin, start))
            begin, size = start, 0
        size += rows
    if begin < len(load):
        yield load.where(slice(begin, len(load)))


def _add(new: LoadColumns, today_s: int) -> None:
    known = LoadColumns.of_rows(_stored(new, today_s))
    both = LoadColumns.joined([known, new]).summed()
    touched = _rows_of(new)
    store_seconds(row for row in both.by_row() if row[:3] in touched)
    _store_rates(RatesHour, hour_rows(both, {(tenant, start) for tenant, _, start in touched}))
    days = {(tenant, start // DAY_S * DAY_S) for tenant, _, start in touched if start < today_s}
    if days:
        recompute_days(days)


def store_seconds(rows: Iterable[tuple[int, int, int, Seconds]]) -> None:
    """`rows`: tenant, endpoint, start and seconds. Replaces rows that exist."""
    _store(PackedSeconds, ("packed",), ((tenant, endpoint, start, (s.pack(),)) for tenant, endpoint, start, s in rows))


def _rows_of(load: LoadColumns) -> set[tuple[int, int, int]]:
    return set(zip(load.tenants.tolist(), load.endpoints.tolist(), load.rows.tolist(), strict=True))


def _stored(load: LoadColumns, today_s: int) -> Iterator[tuple[int, int, int, bytes]]:
    """Stored rows of the same tenants and hours. A closed day has all its seconds in the row of its first hour."""
    hours = set(np.unique(load.rows).tolist())
    starts = hours | {hour // DAY_S * DAY_S for hour in hours if hour < today_s}
    found = PackedSeconds.objects.filter(
        tenant_number__in=np.unique(load.tenants).tolist(), start__in=[BEGINNING + s * SECOND for s in starts]
    )
    for tenant, endpoint, start, packed in found.values_list(*_KEY, "packed").iterator(chunk_size=2_000):
        yield tenant, endpoint, int((start - BEGINNING) // SECOND), packed


def recompute_days(days: set[tuple[int, int]]) -> None:
    """Recomputes the rows of days from their hours; `days`: tenant and the first second of the day."""
    for day in sorted({day for _, day in days}):
        begin = BEGINNING + day * SECOND
        tenants = [tenant for tenant, of_day in days if of_day == day]
        hours = RatesHour.objects.filter(tenant_number__in=tenants, start__gte=begin, start__lt=begin + RatesDay.step)
        _store_rates(RatesDay, day_rows(hours.order_by("tenant_number", "endpoint_number"), day))


def _store_rates(model: type[Rates], rows: Iterator[RateRow]) -> None:
    names = RateRow.columns()
    _store(model, names, ((row.tenant, row.endpoint, row.start_s, row.values()) for row in rows))


def _store(
    model: type[Partitioned], names: tuple[str, ...], rows: Iterator[tuple[int, int, int, tuple[object, ...]]]
) -> None:
    """Inserts the rows or replaces those that exist."""
    found = list(rows)
    if not found:
        return
    ensure_partitions(partition_of(model, BEGINNING + start * SECOND) for start in {row[2] for row in found})
    columns = SQL(", ").join(map(Identifier, (*_KEY, *names)))
    assignments = SQL(", ").join(SQL("{0} = EXCLUDED.{0}").format(Identifier(name)) for name in names)
    with staged(like(model._meta.db_table)) as cursor:
        with cursor.copy(SQL("COPY staged ({}) FROM STDIN").format(columns)) as copy:
            for tenant, endpoint, start, values in found:
                copy.write_row((tenant, endpoint, BEGINNING + start * SECOND, *values))
        table = Identifier(model._meta.db_table)
        cursor.execute(_REPLACE.format(table=table, columns=columns, assignments=assignments))
