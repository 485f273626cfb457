"""Demand, counted in steps of equal length. Steps without requests are left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quotas.observations.arrays import Flags, Floats, Ints

MINUTE_S = 60
HOUR_S = 3_600
DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Counts:
    step_s: int
    starts_s: Ints  # of the steps, ascending, each a multiple of the step
    units: Floats  # offered in the step, above 0

    @classmethod
    def of(cls, times_s: Floats | Ints, step_s: int, costs: Ints | None = None) -> Counts:
        """From single arrivals in any order."""
        steps = np.floor_divide(times_s, step_s).astype(np.int64)
        found, places = np.unique(steps, return_inverse=True)
        return cls(step_s, found * step_s, np.bincount(places, weights=costs, minlength=len(found)).astype(np.float64))

    def __len__(self) -> int:
        return len(self.starts_s)

    def coarser(self, step_s: int) -> Counts:
        if step_s == self.step_s:
            return self
        starts = self.starts_s // step_s * step_s
        first = np.flatnonzero(np.diff(starts, prepend=starts[:1] - 1))
        units = np.add.reduceat(self.units, first) if len(first) else self.units
        return Counts(step_s, starts[first], units)

    def between(self, start_s: float, end_s: float) -> Counts:
        """The steps that begin in [start, end)."""
        first, last = np.searchsorted(self.starts_s, (start_s, end_s))
        return Counts(self.step_s, self.starts_s[first:last], self.units[first:last])

    def where(self, kept: Flags) -> Counts:
        return Counts(self.step_s, self.starts_s[kept], self.units[kept])

    @property
    def rates(self) -> Floats:
        """Units a second."""
        return self.units / self.step_s

    @property
    def total(self) -> float:
        return float(self.units.sum())

    @property
    def peak(self) -> float:
        """The most units in one step."""
        return float(self.units.max(initial=0.0))


def joined(parts: list[Counts], step_s: int) -> Counts:
    """Counts of the same step, added up; in any order, overlapping or not."""
    parts = [part for part in parts if len(part)]
    if len(parts) < 2:
        return parts[0] if parts else Counts(step_s, np.empty(0, np.int64), np.empty(0))
    starts, places = np.unique(np.concatenate([part.starts_s for part in parts]), return_inverse=True)
    weights = np.concatenate([part.units for part in parts])
    units: Floats = np.bincount(places, weights=weights, minlength=len(starts)).astype(np.float64)
    return Counts(step_s, starts, units)
