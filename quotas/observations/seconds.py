"""What was asked for in every second: the load of one tenant on one endpoint, or of many at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from quotas.observations.arrays import Columns, Ints
from quotas.observations.packing import deltas, groups, pack, unpack

SECOND: Final = 1


@dataclass(frozen=True, slots=True)
class Seconds(Columns):
    """Only seconds in which something was asked for, in order of time."""

    starts_s: Ints
    lengths: Ints  # 1; 60 where only the minute is known
    allowed: Ints  # requests
    denied: Ints
    allowed_cost: Ints
    denied_cost: Ints

    @classmethod
    def summed(cls, parts: Sequence[Self]) -> Self:
        """Added up; in any order, overlapping or not."""
        seconds = cls.joined(parts)
        if (np.diff(seconds.starts_s) > 0).all():
            return seconds
        starts, lengths, *sums = seconds.where(np.lexsort((seconds.lengths, seconds.starts_s))).columns
        first = groups(starts, lengths)
        return cls(starts[first], lengths[first], *(np.add.reduceat(column, first) for column in sums))

    @classmethod
    def unpack(cls, packed: bytes | memoryview) -> Self:
        starts, lengths, allowed, denied, more, more_denied = unpack(packed)
        # Minutes are 59 more than a second, and mostly there are none.
        return cls(np.cumsum(starts), lengths + SECOND, allowed, denied, allowed + more, denied + more_denied)

    def pack(self, level: int = 6) -> bytes:
        """Most requests cost 1: what they cost above that takes no room if it is nothing."""
        above = (self.allowed_cost - self.allowed, self.denied_cost - self.denied)
        return pack([deltas(self.starts_s), self.lengths - SECOND, self.allowed, self.denied, *above], level)

    @property
    def offered(self) -> Ints:
        return self.allowed + self.denied

    @property
    def offered_cost(self) -> Ints:
        return self.allowed_cost + self.denied_cost

    def between(self, start_s: float, end_s: float) -> Self:
        """Those that begin in [start, end)."""
        first, last = np.searchsorted(self.starts_s, (start_s, end_s))
        return self.where(slice(int(first), int(last)))
