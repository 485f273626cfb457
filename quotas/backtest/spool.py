"""Spools the arrivals of a trace to disk, sorted by series, so that memory does not grow with the file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np

from quotas.backtest.trace import TraceChunk, TraceError
from quotas.observations.arrays import Ints
from quotas.simulation.fast_replay import ArrivalBatch

MOST_OUT_OF_ORDER = 20_000_000  # rows of one series that may be sorted in memory


class Spool:
    """Written chunk by chunk, sealed, then read series by series in order of time."""

    def __init__(self, folder: str | None = None) -> None:
        self._stack = ExitStack()
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="hr-trace-", dir=folder)))
        self._files: dict[str, BinaryIO] = {}
        self._segments: list[Ints] = []  # rows of series, first place, number of arrivals
        self._length = 0
        self._index: Ints | None = None
        self._columns: dict[str, Ints] = {}
        self.first_us = 2**62
        self.last_us = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def add(self, chunk: TraceChunk) -> None:
        order = np.lexsort((chunk.times_us, chunk.series))
        for name, column in (("times", chunk.times_us), ("subjects", chunk.subjects), ("costs", chunk.costs)):
            if column is not None:
                self._file(name).write(column[order].tobytes())
        found, starts, counts = np.unique(chunk.series[order], return_index=True, return_counts=True)
        self._segments.append(np.stack((found, starts + self._length, counts)))
        self._length += len(order)
        self.first_us = min(self.first_us, int(chunk.times_us.min()))
        self.last_us = max(self.last_us, int(chunk.times_us.max()))

    def seal(self) -> None:
        for name, file in self._files.items():
            file.flush()
            self._columns[name] = np.memmap(self._folder / name, dtype=np.int64, mode="r")
        segments = np.concatenate(self._segments, axis=1)
        self._index = segments[:, np.argsort(segments[0], kind="stable")]
        self._segments.clear()

    def __len__(self) -> int:
        return self._length

    def series(self, number: int) -> Iterator[ArrivalBatch]:
        """Batches in order of time. Without such columns in the trace, all arrivals have one subject and cost 1."""
        if self._index is None:
            raise RuntimeError("seal the spool before reading it")
        first, last = np.searchsorted(self._index[0], (number, number + 1))
        places = self._index[1:, first:last].T.tolist()
        pieces = (self._read(start, count) for start, count in places)
        times = [self._ends(start, count) for start, count in places]
        if all(before[1] <= after[0] for before, after in pairwise(times)):
            return pieces
        return iter([self._sorted(list(places))])

    def _ends(self, start: int, count: int) -> tuple[int, int]:
        column = self._columns["times"]
        return int(column[start]), int(column[start + count - 1])

    def _read(self, start: int, count: int) -> ArrivalBatch:
        times = np.array(self._columns["times"][start : start + count])
        subjects, costs = (
            np.array(self._columns[name][start : start + count]) if name in self._columns else np.full(count, default)
            for name, default in (("subjects", 0), ("costs", 1))
        )
        return ArrivalBatch(times, subjects, costs)

    def _sorted(self, places: list[list[int]]) -> ArrivalBatch:
        if sum(count for _, count in places) > MOST_OUT_OF_ORDER:
            raise TraceError("the rows are too far out of order to be sorted in memory; sort the file by timestamp")
        pieces = [self._read(start, count) for start, count in places]
        times, subjects, costs = (
            np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("times_us", "subjects", "costs")
        )
        order = np.argsort(times, kind="stable")
        return ArrivalBatch(times[order], subjects[order], costs[order])

    def _file(self, name: str) -> BinaryIO:
        if name not in self._files:
            self._files[name] = self._stack.enter_context((self._folder / name).open("wb"))
        return self._files[name]
