"""Percentiles in which observations have weights: of load, and of age."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from quotas.calibration.counts import DAY_S, Counts
from quotas.observations.arrays import Floats

ROUNDING = 1e-12  # of sums in doubles
HIGH = 0.9
TAIL = 0.02  # share of the values that usually holds a high quantile

STEP = 1.05**8  # each bar is eight of the rollups' 5 % buckets wide


def weighted_quantile(values: Floats, weights: Floats, q: float, total: float | None = None) -> float:
    """The least value that at least the share `q` of the weight does not exceed; 0 without values.

    `total` is above the sum of the weights if the lowest values were left out.
    """
    weight = float(weights.sum())
    whole = weight if total is None else total
    if not len(values) or whole <= 0:
        return 0.0
    if len(values) == 1:
        return float(values[0])
    below = whole - weight
    if q > HIGH and len(values) > 1 / TAIL:
        values, weights, below = _tail(values, weights, q * whole, whole)
    order = np.argsort(values)
    sums = below + np.cumsum(weights[order])
    place = int(np.searchsorted(sums, q * whole * (1 - ROUNDING)))
    return float(values[order[min(place, len(order) - 1)]])


def weighted_quantiles(values: Floats, weights: Floats, shares: Sequence[float]) -> list[float]:
    """The same for several shares, sorted once."""
    order = np.argsort(values)
    sums = np.cumsum(weights[order])
    if not len(values) or sums[-1] <= 0:
        return [0.0] * len(shares)
    places = np.searchsorted(sums, np.asarray(shares) * sums[-1] * (1 - ROUNDING))
    return [float(value) for value in values[order[np.minimum(places, len(order) - 1)]]]


def _tail(values: Floats, weights: Floats, wanted: float, total: float) -> tuple[Floats, Floats, float]:
    """The largest values alone and the weight of the others, if the quantile is among the largest: sorting is slow."""
    cut = np.partition(values, -int(len(values) * TAIL))[-int(len(values) * TAIL)]
    above = values >= cut
    below = total - float(weights[above].sum())
    if below < wanted:
        return values[above], weights[above], below
    return values, weights, total - float(weights.sum())


def age_weights(counts: Counts, now_s: float, half_life_days: float) -> Floats:
    """1 for now, a half for one half-life ago."""
    weights: Floats = np.exp2((counts.starts_s - now_s) / (half_life_days * DAY_S))
    return weights


def load_quantile(counts: Counts, q: float, now_s: float, half_life_days: float) -> float:
    """The rate (units a second) of the step that the share `q` of all units came no faster than."""
    weights = counts.units * age_weights(counts, now_s, half_life_days)
    return weighted_quantile(counts.rates, weights, q)


def quantile(values: Floats, q: float) -> float:
    """Each value one vote: the least that at least the share `q` does not exceed."""
    return weighted_quantile(values, np.ones(len(values)), q)


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
