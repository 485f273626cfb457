"""Mergeable histograms of rates: a percentile over any span needs the sum of histograms, not a scan of the data.

Up to 20 each whole number has its own bucket; above that, each bucket ends 5 % higher than the one before. A quantile
is the upper end of its bucket: never below the true value, and at most 5 % above it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from math import exp, log
from typing import Final, Self

import numpy as np

from headroom_edge.observations import ENDS, LARGEST, bucket_of
from quotas.observations.arrays import Ints
from quotas.observations.packing import groups, pack, unpack
from quotas.observations.seconds import Seconds

__all__ = ["ENDS", "LARGEST", "Histogram", "bucket_of"]

WINDOWS: Final = (1, 10, 60)  # seconds
_ENDS: Final = np.array(ENDS, np.int64)
_BUCKETS: Final = 1 << 10  # an upper bound


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many windows of one length had how many requests. Windows without requests are not counted."""

    counts: Mapping[int, int] = field(default_factory=dict)  # bucket → windows

    @classmethod
    def of(cls, values: Iterable[int]) -> Self:
        return cls(Counter(bucket_of(value) for value in values))

    @classmethod
    def unpack(cls, buckets: Iterable[int], counts: Iterable[int]) -> Self:
        return cls(dict(zip(buckets, counts, strict=True)))

    def pack(self) -> tuple[list[int], list[int]]:
        """Sorted buckets and their counts."""
        buckets = sorted(self.counts)
        return buckets, [self.counts[bucket] for bucket in buckets]

    def __add__(self, other: Histogram) -> Histogram:
        return Histogram(Counter(self.counts) + Counter(other.counts))

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def quantile(self, q: float) -> int:
        """The smallest value that at least the share `q` of the windows does not exceed; 0 if there are none."""
        return _at(self.counts, q)

    def interpolated(self, q: float) -> float:
        """The same, but within its bucket: as if the values in a bucket lay evenly between its ends on a log scale.

        So it falls on either side of the true value, by a few percent at most, where `quantile` is never below it.
        """
        return _within(self.counts, q)

    def load_quantile(self, q: float) -> int:
        """The same with each window weighted by its requests: the rate that most requests came at."""
        return _at({bucket: count * ENDS[bucket] for bucket, count in self.counts.items()}, q)


def _at(weights: Mapping[int, int], q: float) -> int:
    if not 0 <= q <= 1:
        raise ValueError(f"{q} is not a share from 0 to 1")
    buckets = sorted(weights)
    if not buckets:
        return 0
    sums = list(accumulate(weights[bucket] for bucket in buckets))
    return ENDS[buckets[min(bisect_left(sums, q * sums[-1]), len(buckets) - 1)]]


def _within(weights: Mapping[int, int], q: float) -> float:
    if not 0 <= q <= 1:
        raise ValueError(f"{q} is not a share from 0 to 1")
    buckets = sorted(weights)
    if not buckets:
        return 0.0
    sums = list(accumulate(weights[bucket] for bucket in buckets))
    place = min(bisect_left(sums, q * sums[-1]), len(buckets) - 1)
    low, high = _bounds(buckets[place])
    share = (q * sums[-1] - (sums[place] - weights[buckets[place]])) / weights[buckets[place]]
    return low * exp(share * log(high / low))


def _bounds(bucket: int) -> tuple[float, float]:
    """Where the whole numbers of a bucket lie, each taken for the values that round up to it."""
    first = ENDS[bucket - 1] + 1 if bucket else ENDS[bucket]
    # A bucket of one number has no inside.
    return (float(first), float(ENDS[bucket])) if first < ENDS[bucket] else (float(ENDS[bucket]),) * 2


@dataclass(frozen=True, slots=True)
class MeasuredRates:
    """The rates of one row in one unit (requests or cost): three packed histograms and three peaks."""

    packed: bytes
    peaks: tuple[int, int, int]


def measure_rates(series: Ints, seconds: Seconds, units: Ints, number: int) -> list[MeasuredRates]:
    """One result for each of the series 0 to `number` − 1; rows must be sorted by series, then by time."""
    buckets, peaks = [], np.zeros((len(WINDOWS), number), np.int64)
    for place, window in enumerate(WINDOWS):
        # A cell of a whole minute tells nothing about windows shorter than that.
        known = seconds.lengths <= window
        found = _windows(series[known], seconds.starts_s[known] // window, units[known])
        np.maximum.at(peaks[place], found[0], found[1])
        bucket = np.searchsorted(_ENDS, np.clip(found[1], 1, LARGEST))
        buckets.append((found[0] * len(WINDOWS) + place) * _BUCKETS + bucket)
    keys, counts = _counted(np.concatenate(buckets), number * len(WINDOWS) * _BUCKETS)
    bounds = np.searchsorted(keys, np.arange(number + 1) * len(WINDOWS) * _BUCKETS)
    spans = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    packs = (_packed(keys[first:last], counts[first:last]) for first, last in spans)
    return [MeasuredRates(packed, (a, b, c)) for packed, (a, b, c) in zip(packs, peaks.T.tolist(), strict=True)]


def _counted(keys: Ints, bound: int) -> tuple[Ints, Ints]:
    """The distinct keys, sorted, and how often each occurs. `bincount` is faster unless the keys are sparse."""
    if bound > 8 * len(keys):
        return np.unique(keys, return_counts=True)
    counts = np.bincount(keys, minlength=bound)
    found = np.flatnonzero(counts)
    return found, counts[found]


def _windows(series: Ints, slots: Ints, units: Ints) -> tuple[Ints, Ints]:
    first = groups(series, slots)
    if not len(first):
        return series, units
    return series[first], np.add.reduceat(units, first)


def _packed(keys: Ints, counts: Ints) -> bytes:
    within = keys % (len(WINDOWS) * _BUCKETS)
    return pack([within // _BUCKETS, within % _BUCKETS, counts])


def merge_packed(packs: Iterable[bytes | memoryview]) -> bytes:
    """The sum of several packed rows, as one packed row."""
    keys, counts = [], []
    for packed in packs:
        window, bucket, count = unpack(packed)
        keys.append(window * _BUCKETS + bucket)
        counts.append(count)
    found, places = np.unique(np.concatenate(keys), return_inverse=True)
    sums = np.bincount(places, weights=np.concatenate(counts), minlength=len(found)).astype(np.int64)
    return pack([found // _BUCKETS, found % _BUCKETS, sums])


def unpack_histograms(packed: bytes | memoryview) -> Iterator[tuple[int, Histogram]]:
    """Window length in seconds and its histogram."""
    place, bucket, count = unpack(packed)
    for number, window in enumerate(WINDOWS):
        here = place == number
        yield window, Histogram(dict(zip(bucket[here].tolist(), count[here].tolist(), strict=True)))
