"""The outlook for the coming days, from past daily peaks.

A tenant whose peaks rise every day will exceed its past; one whose peaks vary may exceed it by chance.
"""

import numpy as np

from quotas.calibration.counts import DAY_S, Counts
from quotas.calibration.parameters import DEFAULTS, Parameters
from quotas.observations.arrays import Floats

ACTIVE_SHARE = 0.8  # of the days; a tenant that comes and goes has no trend


def daily_peaks(minutes: Counts, end_s: float) -> Floats:
    """Of whole days back from `end_s`, oldest first; 0 for a day without requests."""
    if not len(minutes):
        return np.empty(0)
    days = int((end_s - minutes.starts_s[0]) // DAY_S)  # a first day that is cut off says nothing of its peak
    edges = end_s - minutes.step_s - DAY_S * np.arange(days, 0, -1)
    first = np.searchsorted(minutes.starts_s, edges, side="right")
    is_active = np.append(first[1:], len(minutes)) > first
    peaks = np.zeros(days)
    if is_active.any():
        peaks[is_active] = np.maximum.reduceat(minutes.units, first[is_active]) / minutes.step_s
    return peaks


def outlook(peaks: Floats, parameters: Parameters = DEFAULTS) -> float:
    """By what factor to plan above the past: for growth, or for unrest beyond what the margin covers."""
    return max(growth(peaks, parameters), min(parameters.outlook_most, unrest(peaks, parameters) / parameters.margin))


def unrest(peaks: Floats, parameters: Parameters = DEFAULTS) -> float:
    """How far a day's peak strays above the usual one, as a factor; 1 if too few days are known.

    Days below the usual one do not count, so that calm weekends do not add unrest.
    """
    known = peaks[peaks > 0]
    if len(known) < parameters.trend_days:
        return 1.0
    above = np.maximum(0.0, np.log(known / _median(known)))
    # Both halves of an even spread would be as large as this one.
    return float(np.exp(parameters.unrest * np.sqrt(2 * (above**2).mean())))


def growth(peaks: Floats, parameters: Parameters = DEFAULTS) -> float:
    """The factor by which the peak is expected to grow; 1 unless the trend is clear.

    Theil and Sen's slope of the logarithms, damped, so that one odd day does not make a trend.
    """
    days = np.flatnonzero(peaks > 0)
    if len(days) < max(parameters.trend_days, ACTIVE_SHARE * len(peaks)):
        return 1.0
    logs = np.log(peaks[days])
    later, earlier = np.tril_indices(len(days), -1)
    slopes = (logs[later] - logs[earlier]) / (days[later] - days[earlier])
    if np.sign(slopes).mean() < parameters.trend_tau:
        return 1.0
    ahead = np.arange(1, min(parameters.trend_horizon_days, len(peaks)) + 1)
    rise = _median(slopes) * float((parameters.trend_damping**ahead).sum())
    return float(min(parameters.outlook_most, np.exp(rise)))


def _median(values: Floats) -> float:
    """As `np.median`, which takes ten times as long for as few values as there are days."""
    ordered = np.sort(values)
    return float((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2)
