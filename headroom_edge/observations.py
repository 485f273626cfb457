"""Response times and statuses, summed per endpoint and second until a chore sends them to the store."""

from __future__ import annotations

import re
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self

LARGEST: Final = 2**53

CELLS_KEPT: Final = 2_000  # endpoint × second × status class; further cells are dropped
AT_ONCE: Final = 100  # in one call: it blocks the store, which would accept 1,000
OLDEST_MS: Final = 600_000  # the store rejects older ones
ENDPOINT_BYTES: Final = 800
MICROSECONDS: Final = 1_000_000
_ITEM: Final = re.compile(rb"([0-9a-f]{8}) (\d) ((?:\d+:\d+,?)+) (.+)", re.DOTALL)


def _ends() -> list[int]:
    ends = [1]
    while ends[-1] < LARGEST:
        ends.append(max(ends[-1] + 1, ends[-1] * 21 // 20))
    return ends


ENDS: Final = _ends()  # the largest value of each bucket


def bucket_of(value: int) -> int:
    if not 1 <= value <= LARGEST:
        raise ValueError(f"{value} must be from 1 to 2^53; zero has no bucket")
    return bisect_left(ENDS, value)


Words = tuple[str | bytes, ...]
Cell = tuple[int, int, str]  # second by this process's clock, status class, endpoint


@dataclass(frozen=True, slots=True)
class Observation:
    """The responses of one process in one second, endpoint and status class, as kept in the store."""

    second: int  # by the store's clock, since 1970
    status_class: int  # the first digit of the status
    endpoint: str
    counts: Mapping[int, int]  # bucket of microseconds → number of responses

    @classmethod
    def parse(cls, item: bytes) -> Self:
        found = _ITEM.fullmatch(item)
        if found is None:
            raise ValueError(f"{item[:80]!r} is not an observation")
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
        """Remove all cells, and return them as the arguments of one or more calls of hr_observe."""
        if not self._cells:
            return []
        with self._lock:
            cells, self._cells = self._cells, {}
        now = self._clock()
        words = [_words(now, *cell, counts) for cell, counts in cells.items() if now - cell[0] < OLDEST_MS / 1_000]
        batches = [words[start : start + AT_ONCE] for start in range(0, len(words), AT_ONCE)]
        return [[word for four in batch for word in four] for batch in batches]


def _words(now: float, second: int, status_class: int, endpoint: str, counts: dict[int, int]) -> Words:
    # The age of the middle of the second: the store subtracts it from its own clock, which differs a little.
    age_ms = max(0, int((now - second - 0.5) * 1_000))
    histogram = ",".join([f"{bucket}:{count}" for bucket, count in sorted(counts.items())])
    name = endpoint.encode("utf-8", "surrogatepass")[:ENDPOINT_BYTES]
    return str(age_ms), str(status_class), histogram, name
