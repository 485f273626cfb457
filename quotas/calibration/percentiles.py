"""Percentiles in which observations have weights: of load, and of age."""

import numpy as np

from quotas.calibration.counts import DAY_S, Counts
from quotas.simulation.arrays import Floats


def weighted_quantile(values: Floats, weights: Floats, q: float) -> float:
    """The least value that at least the share `q` of the weight does not exceed; 0 if there is none."""
    order = np.argsort(values)
    sums = np.cumsum(weights[order])
    if not len(sums) or sums[-1] <= 0:
        return 0.0
    place = int(np.searchsorted(sums, q * sums[-1]))
    return float(values[order[min(place, len(order) - 1)]])


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
