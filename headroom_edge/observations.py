"""How long answers took and how they ended, added up per endpoint and second until a chore tells the store."""

from __future__ import annotations

import re
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self

LARGEST: Final = 2**53


def _ends() -> list[int]:
    ends = [1]
    while ends[-1] < LARGEST:
        ends.append(max(ends[-1] + 1, ends[-1] * 21 // 20))
    return ends


ENDS: Final = _ends()  # the largest value of each bucket


def bucket_of(value: int) -> int:
    if not 1 <= value <= LARGEST:
        raise ValueError(f"{value} is not a rate or a duration from 1 to 2^53; what did not happen has no bucket")
    return bisect_left(ENDS, value)


CELLS_KEPT: Final = 2_000  # endpoint × second × class; beyond, what is new is dropped
AT_ONCE: Final = 1_000  # the store takes no more in one call
OLDEST_MS: Final = 600_000  # the store wants no older ones
ENDPOINT_BYTES: Final = 800
MICROSECONDS: Final = 1_000_000

_ITEM: Final = re.compile(rb"([0-9a-f]{8}) (\d) ((?:\d+:\d+,?)+) (.+)", re.DOTALL)

Words = tuple[str | bytes, ...]
Cell = tuple[int, int, str]  # second of our own clock, which the store's is near to; class, endpoint


@dataclass(frozen=True, slots=True)
class Observation:
    """Answers of one process, as they lie in the store."""

    second: int  # of the store's clock, since 1970
    status_class: int  # the first digit of the status
    endpoint: str
    counts: Mapping[int, int]  # bucket of microseconds → answers

    @classmethod
    def parse(cls, item: bytes) -> Self:
        found = _ITEM.fullmatch(item)
        if found is None:
            raise ValueError(f"{item[:80]!r} is no observation")
        second, status_class, histogram, endpoint = found.groups()
        counts: dict[int, int] = {}
        for pair in histogram.rstrip(b",").split(b","):
            bucket, _, count = pair.partition(b":")
            counts[int(bucket)] = counts.get(int(bucket), 0) + int(count)
        return cls(int(second, 16), int(status_class), endpoint.decode("utf-8", "replace"), counts)


class Observations:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._cells: dict[Cell, dict[int, int]] = {}

    def add(self, endpoint: str, status: int, seconds: float) -> None:
        bucket = bucket_of(min(max(1, int(seconds * MICROSECONDS)), LARGEST))
        cell = (int(self._clock()), status // 100 % 10, endpoint)
        with self._lock:
            counts = self._cells.get(cell)
            if counts is None:
                if len(self._cells) >= CELLS_KEPT:
                    return
                counts = self._cells[cell] = {}
            counts[bucket] = counts.get(bucket, 0) + 1

    def take(self) -> list[list[str | bytes]]:
        """The arguments of as many calls of hr_observe as are needed; what is taken is forgotten here."""
        if not self._cells:
            return []
        with self._lock:
            cells, self._cells = self._cells, {}
        now = self._clock()
        words = [_words(now, *cell, counts) for cell, counts in cells.items() if now - cell[0] < OLDEST_MS / 1_000]
        batches = [words[start : start + AT_ONCE] for start in range(0, len(words), AT_ONCE)]
        return [[word for four in batch for word in four] for batch in batches]


def _words(now: float, second: int, status_class: int, endpoint: str, counts: dict[int, int]) -> Words:
    # Of the middle of the second: the store subtracts it from its own clock, and clocks differ a little.
    age_ms = max(0, int((now - second - 0.5) * 1_000))
    histogram = ",".join([f"{bucket}:{count}" for bucket, count in sorted(counts.items())])
    name = endpoint.encode("utf-8", "surrogatepass")[:ENDPOINT_BYTES]
    return str(age_ms), str(status_class), histogram, name
