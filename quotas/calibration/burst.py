"""How large a burst a bucket needs at a given rate: q_i = max(0, q_{i-1} − r·Δt_i) + c_i, and b(r) a quantile of q.

At ε = 0, b(r) is exact: the smallest bucket that denies nothing. At ε > 0 it errs on the generous side, because a
denied request is not charged and leaves more for the next.

From single arrivals everything is whole numbers: time in microseconds, backlog in units × P where P/Q microseconds
is the interval between two units. From counts per step it is bracketed: at most, every step's units came as close
to their neighbours' as the steps allow; at least, evenly spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, gcd, log, sqrt

import numpy as np

from headroom_edge.algorithms.base import SECOND_US, ceil_div
from quotas.calibration.counts import Counts
from quotas.calibration.percentiles import weighted_quantile
from quotas.observations.arrays import Floats, Ints

LARGEST = 2**62
GOLDEN = (sqrt(5) - 1) / 2
NEAR = 0.05  # how far the rate may be off the least allowance, as a logarithm
SLACK = 1e-9  # relative; doubles of a sum that is whole may end a little above it


@dataclass(frozen=True, slots=True)
class Point:
    """Units per second, and the burst that goes with them."""

    rate: float
    burst: int


@dataclass(frozen=True, slots=True)
class Rate:
    """`units` per `per_us`, exactly."""

    units: int
    per_us: int = SECOND_US

    @property
    def interval(self) -> tuple[int, int]:
        """Microseconds between two units as a fraction P, Q in lowest terms."""
        common = gcd(self.units, self.per_us)
        return self.per_us // common, self.units // common


@dataclass(frozen=True, slots=True)
class Backlogs:
    """The size a bucket of that rate would need at each arrival, in units × `scale`, exactly."""

    values: Ints
    scale: int

    def burst(self, epsilon: float = 0.0) -> int:
        if not len(self.values):
            return 1
        most = int(np.quantile(self.values, 1 - epsilon, method="inverted_cdf")) if epsilon else int(self.values.max())
        return ceil_div(most, self.scale)


def backlogs(times_us: Ints, costs: Ints, rate: Rate) -> Backlogs:
    """Of arrivals in order of time; `rate` has to be so low that span × Q stays below 2^62."""
    interval, per = rate.interval
    if not len(times_us):
        return Backlogs(np.empty(0, np.int64), interval)
    span = int(times_us[-1] - times_us[0])
    if span * per + int(costs.sum()) * interval >= LARGEST:
        raise ValueError("the arrivals span too long a time for this rate; split them")
    flowed = (times_us - times_us[0]) * per
    asked = np.cumsum(costs) * interval
    lowest = np.maximum.accumulate(flowed - asked + costs * interval)
    return Backlogs(asked - flowed + lowest, interval)


def burst_at(times_us: Ints, costs: Ints, rate: Rate, epsilon: float = 0.0) -> int:
    return backlogs(times_us, costs, rate).burst(epsilon)


@dataclass(frozen=True, slots=True)
class Bracket:
    """The burst lies between the two, however the units were spread within their steps."""

    low: int
    high: int


def bracket(counts: Counts, rate: float, epsilon: float = 0.0, total: float | None = None) -> Bracket:
    """A step weighs as much as it carried; `total` is what all steps carried, if some were left out."""
    high = _high_end(counts, rate, epsilon, total)
    if not len(counts):
        return Bracket(1, high)
    spread = _spread(counts, rate, _walk(counts, rate))
    return Bracket(_quantile(spread, counts.units, counts.total if total is None else total, epsilon), high)


def _high_end(counts: Counts, rate: float, epsilon: float, total: float | None) -> int:
    if not len(counts):
        return 1
    crowded = _crowded(counts, rate, _walk(counts, rate))
    return _quantile(crowded, counts.units, counts.total if total is None else total, epsilon)


def burst_of(counts: Counts, rate: float, epsilon: float = 0.0, total: float | None = None) -> int:
    """The upper end of the bracket; of steps longer than a second, its geometric middle.

    It is common that all units of one second come at once. It is not for ten seconds, and would double every limit.
    """
    if counts.step_s == 1:
        return _high_end(counts, rate, epsilon, total)
    found = bracket(counts, rate, epsilon, total)
    return ceil(sqrt(found.low * found.high))


def decisive(counts: Counts, rate: float, epsilon: float = 0.0) -> Counts:
    """The steps that can make a difference to the burst at this rate or any above it.

    No burst is below the quantile of what two neighbouring steps hold, and no backlog grows with the rate: steps that
    stay below that even at this rate never count, unless a backlog that counts has begun in them.
    """
    if not len(counts):
        return counts
    backlog = _walk(counts, rate)
    neighbours = np.diff(counts.starts_s, prepend=counts.starts_s[:1] - 2 * counts.step_s) == counts.step_s
    least = counts.units + np.where(neighbours, np.concatenate(([0.0], counts.units[:-1])), 0.0)
    crowded = _crowded(counts, rate, backlog)
    counting = crowded >= _high(least, counts.units, counts.total, epsilon)
    if counts.step_s > 1:  # of seconds, the lower end of the bracket is not asked for
        counting |= backlog > rate * counts.step_s + 1
    counting[:-1] |= counting[1:]  # what a step finds is what the one before it left
    rushes = np.cumsum(backlog <= counts.units * (1 + SLACK))  # each begins with nothing left of the one before
    is_kept = np.zeros(int(rushes[-1]) + 1, dtype=bool)
    is_kept[rushes[counting]] = True
    return counts.where(is_kept[rushes])


def settle(counts: Counts, rate: float, burst_seconds: float, epsilon: float = 0.0) -> Point:
    """A point of the curve at this rate or above it.

    Raised as far as the burst is more than `burst_seconds` of the rate, and on as long as that lets less through in
    `burst_seconds` altogether: burst + rate × seconds is least where the decisive rush lasts just so long.
    """
    total, counts = counts.total, decisive(counts, rate, epsilon)
    least = _lowest_fit(counts, rate, burst_seconds, epsilon, total)
    most = _highest(counts, least, burst_seconds)
    if not len(counts) or most <= least:
        return Point(least, burst_of(counts, least, epsilon, total))

    def point(logarithm: float) -> Point:
        return Point(exp(logarithm), burst_of(counts, exp(logarithm), epsilon, total))

    def allowance(one: Point) -> float:
        return one.burst + one.rate * burst_seconds

    low, high = log(least), log(most)
    lowest = point(low)
    if lowest.burst == point(high).burst:
        return lowest  # no rate between the two has another burst, so a higher one only lets more through
    first, second = (point(high - GOLDEN * (high - low)), point(low + GOLDEN * (high - low)))
    while high - low > NEAR:
        if allowance(first) <= allowance(second):
            high, second = log(second.rate), first
            first = point(high - GOLDEN * (high - low))
        else:
            low, first = log(first.rate), second
            second = point(low + GOLDEN * (high - low))
    return min((lowest, first, second), key=allowance)


def curve(counts: Counts, rates: Floats, epsilon: float = 0.0) -> tuple[Point, ...]:
    return tuple(Point(float(rate), burst_of(counts, float(rate), epsilon)) for rate in rates)


def _crowded(counts: Counts, rate: float, backlog: Floats) -> Floats:
    """At most: the step before ended as this one began, so one step less lies between them than between their starts.

    Its own units come at once. With q_s for all units at the start of their step, that is c_s + max(0, q_before −
    r·(gap − step)).
    """
    before = np.concatenate(([0.0], backlog[:-1]))
    gaps = np.diff(counts.starts_s, prepend=counts.starts_s[:1] - counts.step_s) - counts.step_s
    return counts.units + np.maximum(0.0, before - rate * gaps)


def _spread(counts: Counts, rate: float, backlog: Floats) -> Floats:
    """At least: what is left at the end of each step of a flow without grains; a step's last unit finds that much."""
    return np.maximum(backlog - rate * counts.step_s, np.minimum(counts.units, 1.0))


def _walk(counts: Counts, rate: float) -> Floats:
    """The backlog if all units of a step come at its start."""
    flowed = (counts.starts_s - counts.starts_s[0]) * rate
    asked = np.cumsum(counts.units)
    backlog: Floats = asked - flowed + np.maximum.accumulate(flowed - asked + counts.units)
    return backlog


def _high(values: Floats, weights: Floats, total: float, epsilon: float) -> float:
    return weighted_quantile(values, weights, 1 - epsilon, total) if epsilon else float(values.max())


def _quantile(values: Floats, weights: Floats, total: float, epsilon: float) -> int:
    return max(1, ceil(_high(values, weights, total, epsilon) * (1 - SLACK)))


def _highest(counts: Counts, rate: float, burst_seconds: float) -> float:
    """A rate at which no burst is longer than `burst_seconds` of it."""
    return max(rate, counts.peak / counts.step_s, 2 * counts.peak / burst_seconds)


def _lowest_fit(counts: Counts, rate: float, burst_seconds: float, epsilon: float, total: float) -> float:
    """By halving the ratio until it is 1 %."""

    def fits(candidate: float) -> bool:
        return burst_of(counts, candidate, epsilon, total) <= max(1.0, burst_seconds * candidate)

    if rate > 0 and fits(rate):
        return rate
    high = _highest(counts, rate, burst_seconds)
    low = max(rate, high / 1e6)
    while high > low * 1.01:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
