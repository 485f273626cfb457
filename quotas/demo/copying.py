"""Series of seconds into the rollups, by COPY in Postgres' binary form: millions of rows in seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
from django.db import connection
from numpy.typing import NDArray
from psycopg.sql import SQL, Identifier

from quotas.algorithms.units import SECOND_US
from quotas.demo.history import Series
from quotas.models.usage import ROLLUPS, Rollup, UsageStep
from quotas.simulation.arrays import Ints
from quotas.usage.partitions import Slice, ensure, slice_of

# Postgres counts from here.
EPOCH_S: Final = int(datetime(2000, 1, 1, tzinfo=UTC).timestamp())
HEADER: Final = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
TRAILER: Final = b"\xff\xff"
ROWS_AT_ONCE: Final = 50_000
FIELDS: Final = (
    ("start", ">i8"),
    ("tenant_number", ">i4"),
    ("endpoint_number", ">i4"),
    ("outcome", "S1"),
    ("limit_number", ">i4"),
    ("count", ">i8"),
    ("cost", ">i8"),
)
# A row: how many fields, then each field's length and value.
ROW: Final = np.dtype(
    [("fields", ">i2"), *(part for name, kind in FIELDS for part in ((f"{name}_bytes", ">i4"), (name, kind)))]
)
Rows = NDArray[np.void]
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Recorder:
    """Gathers the rows of every rollup; the finest only for as long as it is kept."""

    first_s: int
    oldest_s: dict[type[Rollup], int]  # a rollup has nothing before
    _rows: dict[type[Rollup], list[Rows]] = field(default_factory=dict)

    def add(self, series: Series) -> None:
        for model in ROLLUPS:
            rows = self._rows_of(model, series)
            if len(rows):
                self._rows.setdefault(model, []).append(rows)

    def _rows_of(self, model: type[Rollup], series: Series) -> Rows:
        step_s = int(model.step.total_seconds())
        begin_s = max(self.first_s, self.oldest_s[model])
        begin_s -= begin_s % step_s
        starts, counts = stepped(series.counts, self.first_s, begin_s, step_s)
        rows = np.zeros(len(starts), ROW)
        rows["fields"] = len(FIELDS)
        for name, kind in FIELDS:
            rows[f"{name}_bytes"] = np.dtype(kind).itemsize
        rows["start"] = (starts - EPOCH_S) * SECOND_US
        rows["tenant_number"], rows["endpoint_number"] = series.tenant, series.endpoint
        rows["outcome"], rows["limit_number"] = series.outcome.encode(), series.limit
        rows["count"], rows["cost"] = counts, counts * series.cost
        return rows

    def write(self, progress: Progress) -> int:
        tables = {model: _sorted(parts) for model, parts in self._rows.items()}
        total, done = sum(len(rows) for rows in tables.values()), 0
        for model, rows in tables.items():
            ensure(_slices(model, rows))
            for size in _copy(model, rows):
                done += size
                progress(done, total)
        return total


def stepped(counts: Ints, first_s: int, begin_s: int, step_s: int) -> tuple[Ints, Ints]:
    """Starts and sums of the steps from `begin_s` on in which anything was counted."""
    seconds = first_s + np.flatnonzero(counts)
    seconds = seconds[seconds >= begin_s]
    steps = seconds // step_s
    amounts = counts[seconds - first_s]
    firsts = np.flatnonzero(np.diff(steps, prepend=-1))
    sums: Ints = np.add.reduceat(amounts, firsts) if len(firsts) else amounts
    return steps[firsts] * step_s, sums


def _sorted(parts: Iterable[Rows]) -> Rows:
    """By time, so that rows of a page and of a slice are written together."""
    rows = np.concatenate(list(parts), dtype=ROW)  # else it would take the order of bytes of this machine
    ordered: Rows = rows[np.argsort(rows["start"], kind="stable")]
    return ordered


def _slices(model: type[Rollup], rows: Rows) -> set[Slice]:
    days = np.unique(rows["start"] // (3_600 * SECOND_US)) * 3_600 + EPOCH_S
    return {slice_of(model, datetime.fromtimestamp(int(second), UTC)) for second in days}


def _copy(model: type[Rollup], rows: Rows) -> Iterator[int]:
    names = SQL(", ").join(Identifier(name) for name, _ in FIELDS)
    statement = SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(Identifier(model._meta.db_table), names)
    with connection.cursor() as cursor:
        raw: Any = cursor
        with raw.copy(statement) as copy:
            copy.write(HEADER)
            for begin in range(0, len(rows), ROWS_AT_ONCE):
                part = rows[begin : begin + ROWS_AT_ONCE]
                copy.write(part.tobytes())
                yield len(part)
            copy.write(TRAILER)


def kept_from(now_s: int, first_s: int, finest_s: int) -> dict[type[Rollup], int]:
    """The finest rollup only for the last `finest_s` seconds."""
    return {model: now_s - finest_s if model is UsageStep else first_s for model in ROLLUPS}
