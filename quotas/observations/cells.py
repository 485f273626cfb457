"""Cells: counters per second, tenant, endpoint, outcome and limit, as columns of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Final, NamedTuple, Self

import numpy as np

from quotas.observations.arrays import Columns, Ints
from quotas.observations.packing import deltas, groups, pack, unpack

MINUTE_S: Final = 60
ENDPOINT_BITS: Final = 16  # an endpoint number has three base-36 digits
LETTERS: Final = 128  # an outcome is one ASCII letter
FAST: Final = 1  # zlib level: packed cells are read a few times and then deleted


class CellSeries(NamedTuple):
    tenant: int  # 0: not registered
    endpoint: int  # 0: not registered
    outcome: str
    limit: int  # 0: none


class Cell(NamedTuple):
    start: int  # epoch seconds
    series: CellSeries
    requests: int
    cost: int


@dataclass(frozen=True, slots=True)
class Cells(Columns):
    start: Ints  # epoch seconds
    length: Ints  # 1, or 60 where Redis counted whole minutes because drains were behind
    tenant: Ints
    endpoint: Ints
    outcome: Ints  # character code of the letter
    limit: Ints
    count: Ints
    cost: Ints

    @classmethod
    def of(cls, rows: Iterable[Cell]) -> Self:
        """From cells of one second each."""
        flat = [(row.start, 1, *row.series[:2], ord(row.series[2]), *row.series[3:], *row[2:]) for row in rows]
        return cls(*np.array(flat, np.int64).reshape(-1, len(fields(cls))).T)

    @classmethod
    def unpack(cls, packed: bytes | memoryview) -> Self:
        tenant, start, *others = unpack(packed)
        length, endpoint, outcome, limit, count, cost = others
        return cls(np.cumsum(start), length, np.cumsum(tenant), endpoint, outcome, limit, count, cost)

    def pack(self) -> bytes:
        """Sorted by tenant and endpoint, because sorted columns compress best."""
        cells = self.where(np.lexsort((self.start, self.tenant << ENDPOINT_BITS | self.endpoint)))
        start, length, tenant, *others = cells.columns
        return pack([deltas(tenant), deltas(start), length, *others], FAST)

    def with_outcome(self, letters: Iterable[str]) -> Self:
        is_wanted = np.zeros(LETTERS, bool)
        is_wanted[[ord(letter) for letter in letters]] = True
        return self.where(is_wanted[self.outcome])

    def rows(self) -> Iterator[Cell]:
        for start, _, tenant, endpoint, outcome, limit, count, cost in zip(
            *(column.tolist() for column in self.columns), strict=True
        ):
            yield Cell(start, CellSeries(tenant, endpoint, chr(outcome), limit), count, cost)

    def summed(self, step_s: int) -> Self:
        """One row per step and series, sorted. Cells of a minute are spread over steps shorter than that."""
        cells = self if step_s >= MINUTE_S else self._spread(step_s)
        start = cells.start - cells.start % step_s
        order = np.lexsort((cells.limit, cells.outcome, cells.endpoint, cells.tenant, start))
        start, keys = start[order], [cells.tenant, cells.endpoint, cells.outcome, cells.limit]
        tenant, endpoint, outcome, limit = (key[order] for key in keys)
        first = groups(start, tenant, endpoint, outcome, limit)
        count, cost = (np.add.reduceat(c[order], first) if len(first) else c for c in (cells.count, cells.cost))
        length = np.full(len(first), step_s)
        return type(self)(
            start[first], length, tenant[first], endpoint[first], outcome[first], limit[first], count, cost
        )

    def _spread(self, step_s: int) -> Self:
        """Spreads the cells of a minute evenly over its steps; the sum stays the same, so that all rollups agree."""
        coarse = self.length > step_s
        if not coarse.any():
            return self
        parts = MINUTE_S // step_s
        rows = self.where(np.repeat(np.flatnonzero(coarse), parts))
        part = np.tile(np.arange(parts), len(rows) // parts)
        count, cost = (rows.count + part) // parts, (rows.cost + part) // parts
        laid = replace(
            rows, start=rows.start + part * step_s, length=np.full(len(rows), step_s), count=count, cost=cost
        )
        return type(self).joined([self.where(~coarse), laid.where((count > 0) | (cost > 0))])
