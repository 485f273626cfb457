"""Requests as they came in, with what became of them."""

from __future__ import annotations

from dataclasses import dataclass

from quotas.simulation.arrays import Flags, Ints


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
