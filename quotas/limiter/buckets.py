"""Logarithmic buckets, the same for every histogram: of rates, and of latencies in microseconds.

Up to 20 each whole number has its own; above, a bucket reaches 5 % further than the one before.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

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
