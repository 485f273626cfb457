"""How 60 s rates are spread: a histogram that adds up over tenants."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from quotas.calibration.counts import Counts

STEP = 1.05**8  # each bar is eight of the rollups' 5 % buckets wide


@dataclass(slots=True)
class Spread:
    minutes: dict[int, int] = field(default_factory=dict)  # bar → how many
    units: dict[int, float] = field(default_factory=dict)

    def add(self, counts: Counts) -> None:
        bars = np.floor(np.log(np.maximum(counts.rates, 1e-9)) / np.log(STEP)).astype(np.int64)
        found, places = np.unique(bars, return_inverse=True)
        sums = np.bincount(places, weights=counts.units, minlength=len(found)).astype(np.float64)
        numbers = np.bincount(places, minlength=len(found))
        for bar, number, units in zip(found.tolist(), numbers.tolist(), sums.tolist(), strict=True):
            self.minutes[bar] = self.minutes.get(bar, 0) + number
            self.units[bar] = self.units.get(bar, 0.0) + units

    def rows(self) -> list[dict[str, float]]:
        """From the slowest: rates a second, how many minutes, and how much they carried."""
        return [
            {
                "low": round(STEP**bar, 6),
                "high": round(STEP ** (bar + 1), 6),
                "minutes": self.minutes[bar],
                "units": round(self.units[bar]),
            }
            for bar in sorted(self.minutes)
        ]
