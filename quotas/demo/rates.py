"""Seconds and rates of one tenant's whole history, written at once: what the folds would have made of it, day by day.

Counts stand in a grid of hours × seconds, so that a window is a column and nothing has to be sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Self

import numpy as np
from django.db import connection
from psycopg.sql import SQL, Identifier

from quotas.demo.history import Series
from quotas.limiter.buckets import ENDS
from quotas.models.rates import EVERY_ENDPOINT, PackedSeconds, Rates, RatesDay, RatesHour
from quotas.models.usage import BEGINNING, LET_THROUGH
from quotas.observations.packing import pack
from quotas.observations.rates import WINDOWS, Measured
from quotas.observations.seconds import Seconds
from quotas.simulation.arrays import Ints
from quotas.usage.load import DENIED, HOUR_S
from quotas.usage.partitions import ensure, slice_of
from quotas.usage.rate_rows import RateRow

DAY_S: Final = 86_400
BUCKETS: Final = 256  # enough for forty thousand requests in a window
SECOND: Final = timedelta(seconds=1)
_ENDS: Final = np.array(ENDS[:BUCKETS], np.int64)


@dataclass(frozen=True, slots=True)
class Row:
    tenant: int
    endpoint: int
    start_s: int
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """What was asked of one endpoint, or of all: one line an hour, one place a second."""

    first_s: int  # on the hour
    allowed: Ints
    denied: Ints
    allowed_cost: Ints
    denied_cost: Ints

    @classmethod
    def of(cls, parts: Iterable[Series], first_s: int) -> Self:
        parts = list(parts)
        begin_s = first_s - first_s % HOUR_S
        before, seconds = first_s - begin_s, len(parts[0].counts)
        shape = (before + seconds + HOUR_S - 1) // HOUR_S, HOUR_S
        sums = [np.zeros(shape[0] * HOUR_S, np.int64) for _ in range(4)]
        for part in parts:
            place = 0 if part.outcome in LET_THROUGH else 1
            sums[place][before : before + seconds] += part.counts
            sums[place + 2][before : before + seconds] += part.counts * part.cost
        return cls(begin_s, *(each.reshape(shape) for each in sums))

    def __add__(self, other: Grid) -> Grid:
        allowed, denied = self.allowed + other.allowed, self.denied + other.denied
        costs = self.allowed_cost + other.allowed_cost, self.denied_cost + other.denied_cost
        return Grid(self.first_s, allowed, denied, *costs)

    @property
    def days(self) -> Ints:
        """Where in the lines a day of UTC begins."""
        starts = self.first_s + np.arange(len(self.allowed)) * HOUR_S
        return np.flatnonzero(np.diff(starts // DAY_S, prepend=-1))


@dataclass(frozen=True, slots=True)
class Windows:
    """Of lines: how many windows of each length fell in which bucket, and the most that one had."""

    counts: Ints  # line, length, bucket
    peaks: Ints  # line, length

    @classmethod
    def of(cls, units: Ints) -> Self:
        lines = len(units)
        counts, peaks = np.zeros((lines, len(WINDOWS), BUCKETS), np.int64), np.zeros((lines, len(WINDOWS)), np.int64)
        for place, window in enumerate(WINDOWS):
            amounts = units.reshape(lines, -1, window).sum(axis=2)
            peaks[:, place] = amounts.max(axis=1)
            line, slot = np.nonzero(amounts)
            buckets = line * BUCKETS + np.searchsorted(_ENDS, amounts[line, slot])
            counts[:, place] = np.bincount(buckets, minlength=lines * BUCKETS).reshape(lines, BUCKETS)
        return cls(counts, peaks)

    def together(self, first: Ints) -> Windows:
        """Lines added up, from each of `first` to the next."""
        return Windows(np.add.reduceat(self.counts, first), np.maximum.reduceat(self.peaks, first))

    def measured(self, line: int) -> Measured:
        place, bucket = np.nonzero(self.counts[line])
        first, second, third = self.peaks[line].tolist()
        return Measured(pack([place, bucket, self.counts[line, place, bucket]]), (first, second, third))


def write_rates(of_tenant: list[Series], first_s: int) -> None:
    """All series of one tenant, from its first second on."""
    counted = [series for series in of_tenant if series.tenant and series.outcome in (*LET_THROUGH, *DENIED)]
    if not counted:
        return
    tenant, numbers = counted[0].tenant, sorted({series.endpoint for series in counted})
    grids = {n: Grid.of([series for series in counted if series.endpoint == n], first_s) for n in numbers}
    for number, grid in grids.items():
        _copy(PackedSeconds, ("packed",), _seconds(tenant, number, grid))
    everywhere = grids[numbers[0]]
    for number in numbers[1:]:
        everywhere += grids[number]
    for number, grid in (*grids.items(), (EVERY_ENDPOINT, everywhere)):
        _write_rates(tenant, number, grid)


def _seconds(tenant: int, endpoint: int, grid: Grid) -> Iterator[Row]:
    for line in np.flatnonzero((grid.allowed + grid.denied).any(axis=1)).tolist():
        start_s = grid.first_s + line * HOUR_S
        columns = [amounts[line] for amounts in (grid.allowed, grid.denied, grid.allowed_cost, grid.denied_cost)]
        places = np.flatnonzero(columns[0] + columns[1])
        kept = (column[places] for column in columns)
        seconds = Seconds(start_s + places, np.ones(len(places), np.int64), *kept)
        yield Row(tenant, endpoint, start_s, (seconds.pack(),))


def _write_rates(tenant: int, endpoint: int, grid: Grid) -> None:
    """Of hours, and of the days that are over."""
    requests = Windows.of(grid.allowed + grid.denied)
    cost = grid.allowed_cost + grid.denied_cost
    costs = requests if (cost == grid.allowed + grid.denied).all() else Windows.of(cost)
    hours, days = np.arange(len(grid.allowed)), grid.days
    _copy(RatesHour, RateRow.columns(), _rows(tenant, endpoint, grid, hours, requests, costs))
    of_day = requests.together(days)
    of_days = _rows(tenant, endpoint, grid, days, of_day, of_day if costs is requests else costs.together(days))
    today_s = _begin_s(RatesDay, grid.first_s + int(hours[-1]) * HOUR_S)
    _copy(RatesDay, RateRow.columns(), (row for row in of_days if _begin_s(RatesDay, row.start_s) < today_s))


def _rows(tenant: int, endpoint: int, grid: Grid, first: Ints, requests: Windows, costs: Windows) -> Iterator[Row]:
    """`first`: the lines at which the rows begin; `costs` are `requests` where every request cost 1."""
    allowed, denied = (np.add.reduceat(each.sum(axis=1), first).tolist() for each in (grid.allowed, grid.denied))
    for place, line in enumerate(first.tolist()):
        if allowed[place] or denied[place]:
            measured = requests.measured(place), None if costs is requests else costs.measured(place)
            start_s = grid.first_s + line * HOUR_S
            row = RateRow(tenant, endpoint, start_s, allowed[place], denied[place], *measured)
            yield Row(tenant, endpoint, start_s, row.values())


def _begin_s(model: type[Rates], second: int) -> int:
    return second - second % (model.step // SECOND)


def _copy(model: type[PackedSeconds] | type[Rates], names: tuple[str, ...], rows: Iterable[Row]) -> None:
    step_s = model.step // SECOND
    found = [(BEGINNING + (row.start_s - row.start_s % step_s) * SECOND, row) for row in rows]
    if not found:
        return
    ensure(slice_of(model, start) for start in {start for start, _ in found})
    columns = SQL(", ").join(map(Identifier, ("tenant_number", "endpoint_number", "start", *names)))
    statement = SQL("COPY {} ({}) FROM STDIN").format(Identifier(model._meta.db_table), columns)
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for start, row in found:
            copy.write_row((row.tenant, row.endpoint, start, *row.values))
