"""Names for the arrays that calibration and fast replay pass around."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def whole_numbers(values: object) -> Ints:
    return np.asarray(values, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Attempts:
    """Single requests of one tenant on one endpoint, in order of time."""

    times_us: Ints
    costs: Ints
    subjects: Ints  # any number that tells them apart
    denied: Flags
    retry_us: Ints  # what a denied one was told to wait; 0 otherwise

    def __len__(self) -> int:
        return len(self.times_us)

    def cut(self, first: int, last: int) -> Attempts:
        place = slice(first, last)
        return Attempts(
            self.times_us[place], self.costs[place], self.subjects[place], self.denied[place], self.retry_us[place]
        )
