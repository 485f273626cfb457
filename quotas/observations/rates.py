"""Histograms of rates: how many windows of 1, 10 and 60 s had how many requests, for many series at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from headroom_edge.observations import ENDS, LARGEST
from quotas.observations.histogram import Histogram
from quotas.observations.packing import groups, pack, unpack
from quotas.observations.seconds import Seconds
from quotas.simulation.arrays import Ints

WINDOWS: Final = (1, 10, 60)  # seconds
_ENDS: Final = np.array(ENDS, np.int64)
_BUCKETS: Final = 1 << 10  # more than there are


@dataclass(frozen=True, slots=True)
class RateSet:
    """Of one series: a histogram a window, and the most that one window had."""

    histograms: Mapping[int, Histogram]  # by window
    peaks: Mapping[int, int]

    def quantile(self, window_s: int, q: float) -> int:
        """Requests in the window; divide by its length for a rate. Windows without requests are not counted."""
        return min(self.histograms[window_s].quantile(q), self.peaks[window_s] or LARGEST)

    def load_quantile(self, window_s: int, q: float) -> int:
        return min(self.histograms[window_s].load_quantile(q), self.peaks[window_s] or LARGEST)

    def peak(self, window_s: int) -> int:
        return self.peaks[window_s]


@dataclass(frozen=True, slots=True)
class Measured:
    """What one row of rates holds of one unit: three histograms and three peaks."""

    packed: bytes
    peaks: tuple[int, int, int]


def measure(series: Ints, seconds: Seconds, units: Ints, number: int) -> list[Measured]:
    """Of the series 0 to `number` − 1; the rows are sorted by series, then by time."""
    buckets, peaks = [], np.zeros((len(WINDOWS), number), np.int64)
    for place, window in enumerate(WINDOWS):
        # A minute that was counted whole says nothing about the seconds in it.
        known = seconds.lengths <= window
        found = _windows(series[known], seconds.starts_s[known] // window, units[known])
        np.maximum.at(peaks[place], found[0], found[1])
        bucket = np.searchsorted(_ENDS, np.clip(found[1], 1, LARGEST))
        buckets.append((found[0] * len(WINDOWS) + place) * _BUCKETS + bucket)
    keys, counts = _counted(np.concatenate(buckets), number * len(WINDOWS) * _BUCKETS)
    bounds = np.searchsorted(keys, np.arange(number + 1) * len(WINDOWS) * _BUCKETS)
    spans = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    packs = (_packed(keys[first:last], counts[first:last]) for first, last in spans)
    return [Measured(packed, (a, b, c)) for packed, (a, b, c) in zip(packs, peaks.T.tolist(), strict=True)]


def _counted(keys: Ints, bound: int) -> tuple[Ints, Ints]:
    """Which there are, in order, and how often."""
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


def merged(packs: Iterable[bytes | memoryview]) -> bytes:
    """The sum of several rows, as one."""
    keys, counts = [], []
    for packed in packs:
        window, bucket, count = unpack(packed)
        keys.append(window * _BUCKETS + bucket)
        counts.append(count)
    found, places = np.unique(np.concatenate(keys), return_inverse=True)
    sums = np.bincount(places, weights=np.concatenate(counts), minlength=len(found)).astype(np.int64)
    return pack([found // _BUCKETS, found % _BUCKETS, sums])


def histograms(packed: bytes | memoryview) -> Iterator[tuple[int, Histogram]]:
    """By window."""
    place, bucket, count = unpack(packed)
    for number, window in enumerate(WINDOWS):
        here = place == number
        yield window, Histogram(dict(zip(bucket[here].tolist(), count[here].tolist(), strict=True)))
