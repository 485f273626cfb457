"""Counters as columns: how many requests of which cost had which outcome, per tenant, endpoint and second."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Final, NamedTuple, Self

import numpy as np

from quotas.observations.arrays import Columns, Ints
from quotas.observations.packing import deltas, groups, pack, unpack

MINUTE_S: Final = 60
ENDPOINT_BITS: Final = 16  # a number of three digits to the base 36 fits
LETTERS: Final = 128  # an outcome is one of a to z
FAST: Final = 1  # zlib: what is packed here is read once and thrown away


class CellSeries(NamedTuple):
    tenant: int  # 0: a tenant nobody registered
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
    length: Ints  # 1; 60 where Redis counted whole minutes, because nobody had drained for a while
    tenant: Ints
    endpoint: Ints
    outcome: Ints  # code of the letter
    limit: Ints
    count: Ints
    cost: Ints

    @classmethod
    def of(cls, rows: Iterable[Cell]) -> Self:
        """Of single seconds."""
        flat = [(row.start, 1, *row.series[:2], ord(row.series[2]), *row.series[3:], *row[2:]) for row in rows]
        return cls(*np.array(flat, np.int64).reshape(-1, len(fields(cls))).T)

    @classmethod
    def unpack(cls, packed: bytes | memoryview) -> Self:
        tenant, start, *others = unpack(packed)
        length, endpoint, outcome, limit, count, cost = others
        return cls(np.cumsum(start), length, np.cumsum(tenant), endpoint, outcome, limit, count, cost)

    def pack(self) -> bytes:
        """In order of tenant and endpoint, which makes it small."""
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
        """One row per step and series, in this order; minutes are laid over steps that are shorter."""
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
        """Minutes laid evenly over their steps, so that every rollup has the same sum."""
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
