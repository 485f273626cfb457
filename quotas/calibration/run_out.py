"""When a calendar quota will be used up, if usage continues as before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quotas.calibration.counts import DAY_S
from quotas.observations.arrays import Floats

WEEK = 7
Z = 1.645  # of a normal distribution: nine of ten outcomes lie between the two ends


@dataclass(frozen=True, slots=True)
class RunOut:
    """Seconds since the epoch; None: not before the period ends."""

    expected_s: float | None
    earliest_s: float | None
    latest_s: float | None


def run_out(days: Sequence[float], used: float, limit: float, now_s: float, period_end_s: float) -> RunOut:
    """`days`: units of whole days up to now, oldest first; `used`: since the period began."""
    left = limit - used
    if left <= 0:
        return RunOut(now_s, now_s, now_s)
    ahead = max(0, int(np.ceil((period_end_s - now_s) / DAY_S)))
    if not len(days) or not ahead:
        return RunOut(None, None, None)
    means, deviation = _outlook(np.asarray(days, dtype=np.float64), ahead)
    sums, coming = np.cumsum(means), np.arange(1, ahead + 1)
    # Each day strays, and the mean of the past days is itself off, by the same amount every day.
    spread = Z * deviation * np.sqrt(coming + coming**2 / len(days))
    return RunOut(
        *(
            _reached(np.maximum.accumulate(path), left, now_s, period_end_s)
            for path in (sums, sums + spread, sums - spread)
        )
    )


def _outlook(days: Floats, ahead: int) -> tuple[Floats, float]:
    """What each coming day brings, and how far a day strays; by day of the week once two weeks are known."""
    ages = np.arange(len(days), 0, -1)  # how many days ago
    if len(days) < 2 * WEEK:
        means = np.full(ahead, days.mean())
        strays = days - days.mean()
        groups = 1
    else:
        by_weekday = np.array([days[(ages - 1) % WEEK == place].mean() for place in range(WEEK)])
        means = by_weekday[(-np.arange(1, ahead + 1)) % WEEK]
        strays = days - by_weekday[(ages - 1) % WEEK]
        groups = WEEK
    return means, float(np.sqrt((strays**2).sum() / max(1, len(days) - groups)))


def _reached(path: Floats, left: float, now_s: float, period_end_s: float) -> float | None:
    """When the path of running sums crosses what is left, even within its day."""
    day = int(np.searchsorted(path, left))
    if day >= len(path):
        return None
    before = float(path[day - 1]) if day else 0.0
    share = (left - before) / max(float(path[day]) - before, 1e-12)
    moment = now_s + (day + min(1.0, max(0.0, share))) * DAY_S
    return moment if moment < period_end_s else None
