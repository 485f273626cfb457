"""Latency of responses against the load of the same second."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Final, Self

import numpy as np

from headroom_edge.observations import ENDS, LARGEST
from quotas.observations.arrays import Columns, Ints
from quotas.observations.histogram import Histogram
from quotas.observations.packing import groups, pack, unpack

HOUR_S: Final = 3_600
_ENDS: Final = np.array(ENDS, np.int64)


@dataclass(frozen=True, slots=True)
class LatencyCounts(Columns):
    """Counts of responses by second, endpoint, error and latency."""

    second: Ints
    endpoint: Ints
    is_error: Ints  # 1: status 500 or above
    bucket: Ints  # of the latency in microseconds
    count: Ints

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int, int, int]]) -> Self:
        return cls(*np.array(list(rows), np.int64).reshape(-1, len(fields(cls))).T)

    @classmethod
    def unpack(cls, packed: bytes | memoryview) -> Self:
        return cls(*unpack(packed)) if len(packed) else cls.of(())

    def pack(self) -> bytes:
        return pack(self.columns) if len(self) else b""


@dataclass(frozen=True, slots=True)
class LoadRow:
    """The seconds of one hour in which an endpoint had about the same load, taken together."""

    endpoint: int
    hour_s: int
    load: int  # bucket of responses per second
    seconds: int
    answers: int
    errors: int
    total_us: int  # at most 5 % too high, as latencies are known by bucket
    latency: Histogram  # of microseconds


def load_rows(answers: LatencyCounts) -> Iterator[LoadRow]:
    order = np.lexsort((answers.second, answers.endpoint))
    ordered = answers.where(order)
    first = groups(ordered.endpoint, ordered.second)
    if not len(first):
        return
    loads = np.add.reduceat(ordered.count, first)
    places = np.repeat(np.searchsorted(_ENDS, np.clip(loads, 1, LARGEST)), np.diff(first, append=len(ordered)))
    hours = ordered.second // HOUR_S * HOUR_S
    order = np.lexsort((ordered.second, places, hours, ordered.endpoint))
    ordered, places, hours = ordered.where(order), places[order], hours[order]
    begins = groups(ordered.endpoint, hours, places)
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(ordered)], strict=True):
        part = ordered.where(np.arange(begin, end))
        yield _row(int(hours[begin]), int(places[begin]), part)


def _row(hour_s: int, load: int, part: LatencyCounts) -> LoadRow:
    counts = np.bincount(part.bucket, weights=part.count).astype(np.int64)
    found = np.flatnonzero(counts)
    latency = Histogram(dict(zip(found.tolist(), counts[found].tolist(), strict=True)))
    return LoadRow(
        endpoint=int(part.endpoint[0]),
        hour_s=hour_s,
        load=load,
        seconds=len(np.unique(part.second)),
        answers=int(part.count.sum()),
        errors=int((part.count * part.is_error).sum()),
        total_us=int((part.count * _ENDS[part.bucket]).sum()),
        latency=latency,
    )


def pack_histogram(histogram: Histogram) -> bytes:
    buckets, counts = histogram.pack()
    return pack([np.array(buckets, np.int64), np.array(counts, np.int64)])


def unpack_histogram(packed: bytes | memoryview) -> Histogram:
    buckets, counts = unpack(packed)
    return Histogram.unpack(buckets.tolist(), counts.tolist())
