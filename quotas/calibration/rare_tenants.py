"""Limits for tenants that are active for a few minutes a day.

Their own history is a handful of peaks, one for each day with requests. What a tier's tenants have in common is how
far such a peak strays from day to day, so that spread is pooled, and each tenant keeps its own level. The fewer days
are known of a tenant, and the more they differ, the more room it gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np

from quotas.calibration.estimate import DayPeaks, Estimate
from quotas.calibration.parameters import DEFAULTS, Parameters

POOLED_DAYS = 4.0  # the tier's spread weighs as much as so many days of the tenant's own
MOST_VARIANCE = 0.95  # quantile: the few wildest tenants do not set the spread of all
LEAST_BETWEEN = 0.05  # variance of the levels; without any, all tenants would get the same limit
MOST_ROOM = 20.0  # times its own peak


def rare_days(estimate: Estimate, parameters: Parameters = DEFAULTS) -> DayPeaks | None:
    """The daily peaks of a rarely active tenant; None: it is active for longer."""
    found = estimate.confidence
    is_rare = found.active_minutes < parameters.rare_minutes * max(1.0, found.days)
    return estimate.day_peaks if is_rare else None


@dataclass(frozen=True, slots=True)
class PeakSpread:
    """How the daily peaks of a tier's tenants differ, in natural logarithms."""

    level: float  # of the median tenant
    between: float  # variance of the tenants' levels
    within: float  # variance of one tenant's days

    @classmethod
    def of(cls, estimates: Sequence[Estimate], parameters: Parameters = DEFAULTS) -> PeakSpread | None:
        """None: most tenants of the tier are active for longer, so that its limit is well known."""
        active = [one for one in estimates if one.rate > 0]
        days = [found for one in active if (found := rare_days(one, parameters))]
        if 2 * len(days) <= len(active):
            return None
        known = np.array([one.variance for one in days if one.days > 1])
        if not len(known):
            return None
        within = float(np.minimum(known, np.quantile(known, MOST_VARIANCE)).mean())
        levels = np.array([one.level for one in days])
        usual = float(np.mean([one.days for one in days]))
        between = max(LEAST_BETWEEN, float(levels.var()) - within / usual)
        return cls(float(np.median(levels)), between, within)

    def room(self, days: DayPeaks, peak: float, parameters: Parameters = DEFAULTS) -> float:
        """By what factor to plan above the highest peak so far; at least 1."""
        own = days.days - 1
        variance = (POOLED_DAYS * self.within + own * days.variance) / (POOLED_DAYS + own)
        weight = days.days * self.between / max(1e-12, days.days * self.between + variance)
        level = weight * days.level + (1 - weight) * self.level
        deviations = _student(parameters.peak_spread, POOLED_DAYS + own)
        expected = level + deviations * sqrt(variance * (1 + 1 / days.days))
        return exp(min(log(MOST_ROOM), max(0.0, expected - log(max(peak, 1e-9)))))


def _student(normal: float, freedom: float) -> float:
    """The quantile of Student's distribution that has the rank of this normal one (Cornish and Fisher)."""
    once = (normal**3 + normal) / 4
    twice = (5 * normal**5 + 16 * normal**3 + 3 * normal) / 96
    return normal + once / freedom + twice / freedom**2
