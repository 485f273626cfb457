"""Load per second, as columns; of one tenant and endpoint, or of many."""

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
    """Seconds with requests, in order of time; seconds without are left out."""

    starts_s: Ints
    lengths: Ints  # 1, or 60 where only the minute is known
    allowed: Ints  # requests
    denied: Ints
    allowed_cost: Ints
    denied_cost: Ints

    @classmethod
    def summed(cls, parts: Sequence[Self]) -> Self:
        """The sum of parts, which may overlap and come in any order."""
        seconds = cls.joined(parts)
        if (np.diff(seconds.starts_s) > 0).all():
            return seconds
        starts, lengths, *sums = seconds.where(np.lexsort((seconds.lengths, seconds.starts_s))).columns
        first = groups(starts, lengths)
        return cls(starts[first], lengths[first], *(np.add.reduceat(column, first) for column in sums))

    @classmethod
    def unpack(cls, packed: bytes | memoryview) -> Self:
        starts, lengths, allowed, denied, more, more_denied = unpack(packed)
        # Lengths are stored less 1: mostly all zeros, which take no room.
        return cls(np.cumsum(starts), lengths + SECOND, allowed, denied, allowed + more, denied + more_denied)

    def pack(self, level: int = 6) -> bytes:
        """Costs are stored as what exceeds the count: for requests of cost 1 the column is zero and takes no room."""
        above = (self.allowed_cost - self.allowed, self.denied_cost - self.denied)
        return pack([deltas(self.starts_s), self.lengths - SECOND, self.allowed, self.denied, *above], level)

    @property
    def offered(self) -> Ints:
        return self.allowed + self.denied

    @property
    def offered_cost(self) -> Ints:
        return self.allowed_cost + self.denied_cost

    def between(self, start_s: float, end_s: float) -> Self:
        """Seconds that begin in [start, end)."""
        first, last = np.searchsorted(self.starts_s, (start_s, end_s))
        return self.where(slice(int(first), int(last)))
