"""Histograms of rates that add up: a percentile over any span is a sum, not a scan.

Buckets are whole numbers. Up to 20 each number has its own; above, a bucket reaches 5 % further than
the one before. An answer is the upper end of a bucket: never below the truth, at most 5 % above it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Self

from headroom_edge.observations import ENDS, LARGEST, bucket_of

__all__ = ["ENDS", "LARGEST", "Histogram", "bucket_of"]


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many windows of one length had which number of requests; empty windows are not in it."""

    counts: Mapping[int, int] = field(default_factory=dict)  # bucket → windows

    @classmethod
    def of(cls, values: Iterable[int]) -> Self:
        return cls(Counter(bucket_of(value) for value in values))

    @classmethod
    def unpack(cls, buckets: Iterable[int], counts: Iterable[int]) -> Self:
        return cls(dict(zip(buckets, counts, strict=True)))

    def pack(self) -> tuple[list[int], list[int]]:
        """Buckets in order and their counts, as two columns hold them."""
        buckets = sorted(self.counts)
        return buckets, [self.counts[bucket] for bucket in buckets]

    def __add__(self, other: Histogram) -> Histogram:
        return Histogram(Counter(self.counts) + Counter(other.counts))

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def quantile(self, q: float) -> int:
        """The least value that at least the share `q` of the windows does not exceed; 0 if there are none."""
        return _at(self.counts, q)

    def load_quantile(self, q: float) -> int:
        """The same with each window weighing as much as it carried: the rate that a request saw."""
        return _at({bucket: count * ENDS[bucket] for bucket, count in self.counts.items()}, q)

    def above(self, value: int) -> int:
        """How many windows had more than `value`; those that share its bucket are not among them."""
        least = bucket_of(value) if value else -1
        return sum(count for bucket, count in self.counts.items() if bucket > least)


def _at(weights: Mapping[int, int], q: float) -> int:
    if not 0 <= q <= 1:
        raise ValueError(f"{q} is not a share from 0 to 1")
    buckets = sorted(weights)
    if not buckets:
        return 0
    sums = list(accumulate(weights[bucket] for bucket in buckets))
    return ENDS[buckets[min(bisect_left(sums, q * sums[-1]), len(buckets) - 1)]]
