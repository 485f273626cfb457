"""Writes the demo's history to the rollups by plain COPY, which is possible because they hold nothing of its days."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from quotas.demo.traffic_history import FlowSeries
from quotas.models.packed_usage import PACKED
from quotas.models.usage import BEGINNING, ROLLUPS, Rollup
from quotas.observations.arrays import Ints
from quotas.observations.cells import Cells
from quotas.usage.packed_hours import pack_cells
from quotas.usage.partitions import ensure_partitions, partition_of
from quotas.usage.postgres_copy import copy_cells
from quotas.usage.rollups import SECOND, totals_of

ROWS_AT_ONCE: Final = 100_000


@dataclass(slots=True)
class RollupWriter:
    """Collects the rows of every rollup; `oldest_s` is the first second to keep in each."""

    oldest_s: Mapping[type[Rollup], int]
    _cells: dict[type[Rollup], list[Cells]] = field(default_factory=lambda: {model: [] for model in ROLLUPS})

    def add(self, series: FlowSeries, first_s: int) -> None:
        cells = cells_of(series, first_s)
        for model in ROLLUPS:
            step_s = model.step // SECOND
            cells = coarser(cells, step_s)
            self._cells[model].append(cells.where(cells.start > self.oldest_s[model] - step_s))

    def write(self) -> None:
        for model, parts in self._cells.items():
            for table, cells in _with_totals(model, Cells.joined(parts)):
                _copy(table, _in_order(cells))


def cells_of(series: FlowSeries, first_s: int) -> Cells:
    places = np.flatnonzero(series.counts)
    count = series.counts[places]

    def same(number: int) -> Ints:
        return np.full(len(places), number)

    return Cells(
        start=first_s + places,
        length=same(1),
        tenant=same(series.tenant),
        endpoint=same(series.endpoint),
        outcome=same(ord(series.outcome)),
        limit=same(series.limit),
        count=count,
        cost=count * series.cost,
    )


def coarser(cells: Cells, step_s: int) -> Cells:
    """Sums the cells of one series, which are in order of time, into longer steps."""
    start = cells.start - cells.start % step_s
    first = np.flatnonzero(np.diff(start, prepend=-1))
    kept = cells.where(first)
    if not len(first):
        return kept
    count, cost = (np.add.reduceat(column, first) for column in (cells.count, cells.cost))
    return replace(kept, start=start[first], length=np.full(len(first), step_s), count=count, cost=cost)


def _with_totals(model: type[Rollup], cells: Cells) -> Iterator[tuple[type[Rollup], Cells]]:
    yield model, cells
    yield from totals_of(model, cells)


def _in_order(cells: Cells) -> Cells:
    """Sorted by time, so that rows of one page and partition are written together."""
    return cells.where(np.argsort(cells.start, kind="stable"))


def _copy(model: type[Rollup], cells: Cells) -> None:
    for begin in range(0, len(cells), ROWS_AT_ONCE):
        part = cells.where(slice(begin, begin + ROWS_AT_ONCE))
        if model in PACKED:
            pack_cells(model, part)
        else:
            ensure_partitions(
                partition_of(model, BEGINNING + start * SECOND) for start in np.unique(part.start).tolist()
            )
            copy_cells(part, model._meta.db_table)
