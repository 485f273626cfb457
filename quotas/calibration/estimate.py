"""What one tenant needs on one endpoint: rate, burst, confidence, and the data behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headroom_edge.algorithms.base import SECOND_US
from quotas.calibration.burst import Point, Rate, burst_at, curve, settle
from quotas.calibration.counts import DAY_S, MINUTE_S, Counts
from quotas.calibration.demand import Demand
from quotas.calibration.parameters import DEFAULTS, Parameters
from quotas.calibration.percentiles import age_weights, weighted_quantiles
from quotas.calibration.sizing import bucket
from quotas.calibration.trend import daily_peaks, outlook
from quotas.observations.arrays import Flags, Floats
from quotas.simulation.fast_replay import ArrivalBatch

PERCENTILES = (0.5, 0.9, 0.95, 0.98, 0.99, 1.0)
CURVE_SPAN = 4.0
CURVE_POINTS = 9
MOSTLY = 0.01  # share of the load in censored hours, above which the rate is a lower bound


@dataclass(frozen=True, slots=True)
class Span:
    start_s: float
    end_s: float

    @property
    def days(self) -> float:
        return max(0.0, self.end_s - self.start_s) / DAY_S


@dataclass(frozen=True, slots=True)
class Observed:
    """The data on one tenant at one endpoint, or on one of its keys, users or addresses."""

    tenant: str
    endpoint: str
    demand: Demand
    fine: Counts  # the same load in the finest steps there are, as far back as there are any
    first_s: float  # when it was first seen
    gaps: Sequence[Span] = ()  # when no data
    arrivals: ArrivalBatch | None = None  # of a sampled subject: each of its requests; None: only counts are known


@dataclass(frozen=True, slots=True)
class Confidence:
    days: float  # of calendar, as far as history reaches, without gaps
    active_minutes: int

    @property
    def c(self) -> float:
        """Days of evidence."""
        return min(self.days, self.active_minutes * MINUTE_S / DAY_S)

    @property
    def widening(self) -> float:
        return 1 + 1 / self.c if self.c > 0 else float("inf")


@dataclass(frozen=True, slots=True)
class DayPeaks:
    """The busiest minutes of the days with requests, as natural logarithms of units a minute."""

    days: int  # at least 1
    level: float  # mean
    variance: float  # 0 for a single day

    @classmethod
    def of(cls, peaks: Floats, whole: float) -> DayPeaks:
        """`peaks` in units a second, 0 on days without requests; `whole`: the highest, if no day is complete."""
        known = peaks[peaks > 0] * MINUTE_S
        logs = np.log(known if len(known) else np.array([max(whole, 1e-9)]))
        return cls(len(logs), float(logs.mean()), float(logs.var(ddof=1)) if len(logs) > 1 else 0.0)


@dataclass(frozen=True, slots=True)
class Estimate:
    tenant: str
    endpoint: str
    rate: float  # units a second: the load-weighted percentile of the 60 s rates
    settled: Point  # a point of the arrival curve at that rate or above
    growth: float  # expected on top of it
    confidence: Confidence
    is_lower_bound: bool  # too much of the load came in hours with many denials
    used: Span
    excluded: tuple[Span, ...]
    censored_share: float
    peak: float  # the most units in one minute
    percentiles: Mapping[float, float]  # of the 60 s rates, by load
    day_peaks: DayPeaks | None = None  # None: it stands for several subjects, each with peaks of its own

    @property
    def low(self) -> float:
        return self.rate / self.confidence.widening

    @property
    def high(self) -> float:
        return float("inf") if self.is_lower_bound else self.rate * self.growth * self.confidence.widening

    @property
    def point(self) -> Point:
        """The settled rate and burst with the expected growth."""
        return Point(self.settled.rate * self.growth, max(1, round(self.settled.burst * self.growth)))


def estimate(observed: Observed, now_s: float, parameters: Parameters = DEFAULTS) -> Estimate:
    used = Span(max(observed.first_s, now_s - parameters.history_days * DAY_S), now_s)
    minutes, censored = _within(observed, used)
    fine = observed.fine.between(used.start_s, used.end_s)
    weights = minutes.units * age_weights(minutes, now_s, parameters.half_life_days)
    *found, wanted = weighted_quantiles(minutes.rates, weights, (*PERCENTILES, parameters.rate_quantile))
    percentiles = dict(zip(PERCENTILES, found, strict=True))
    share = float(minutes.units[censored].sum() / minutes.total) if len(minutes) else 0.0
    settled = settle(fine, wanted, parameters.burst_seconds, parameters.burst_epsilon)
    peaks = daily_peaks(minutes, now_s)
    return Estimate(
        observed.tenant,
        observed.endpoint,
        wanted,
        settled if observed.arrivals is None else _exact(observed.arrivals, used, settled.rate, parameters),
        outlook(peaks, parameters),
        Confidence(used.days - _gap_days(observed.gaps, used), len(minutes)),
        share > MOSTLY,
        used,
        tuple(gap for gap in observed.gaps if gap.end_s > used.start_s and gap.start_s < used.end_s),
        share,
        minutes.peak,
        percentiles,
        DayPeaks.of(peaks, minutes.peak),
    )


def curve_around(observed: Observed, estimate: Estimate, parameters: Parameters = DEFAULTS) -> tuple[Point, ...]:
    """b(r) from a quarter of the estimated rate to four times the rate, for people to see."""
    fine = observed.fine.between(estimate.used.start_s, estimate.used.end_s)
    if not len(fine) or estimate.settled.rate <= 0:
        return ()
    rates = estimate.settled.rate * np.geomspace(1 / CURVE_SPAN, CURVE_SPAN, CURVE_POINTS)
    if observed.arrivals is not None:
        return tuple(_exact(observed.arrivals, estimate.used, float(rate), parameters) for rate in rates)
    return curve(fine, rates, parameters.burst_epsilon)


def _exact(arrivals: ArrivalBatch, used: Span, rate: float, parameters: Parameters) -> Point:
    """The burst at this rate, from single arrivals; no bracket is needed where each is known."""
    first, last = np.searchsorted(arrivals.times_us, np.array((used.start_s, used.end_s)) * SECOND_US)
    kept, whole = arrivals.cut(int(first), int(last)), bucket(Point(rate, 1))
    burst = burst_at(kept.times_us, kept.costs, Rate(whole.rate, whole.per_us), parameters.burst_epsilon)
    return Point(rate, burst)


def _within(observed: Observed, used: Span) -> tuple[Counts, Flags]:
    """The minutes within the span and outside of all gaps, and which of them are censored."""
    minutes = observed.demand.minutes
    kept = (minutes.starts_s >= used.start_s - MINUTE_S) & (minutes.starts_s < used.end_s)
    for gap in observed.gaps:
        kept &= (minutes.starts_s + MINUTE_S <= gap.start_s) | (minutes.starts_s >= gap.end_s)
    return minutes.where(kept), observed.demand.censored[kept]


def _gap_days(gaps: Sequence[Span], used: Span) -> float:
    return sum(Span(max(gap.start_s, used.start_s), min(gap.end_s, used.end_s)).days for gap in gaps)
