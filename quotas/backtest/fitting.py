"""Fits all rules on one series (a tenant on an endpoint), in one pass over its arrivals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from headroom_edge.algorithms.base import SECOND_US
from quotas.backtest.baselines import RULES, SubjectMaxima
from quotas.backtest.trace import SeriesName
from quotas.calibration.burst import Point
from quotas.calibration.counts import DAY_S, MINUTE_S, Counts, joined
from quotas.calibration.demand import Demand
from quotas.calibration.estimate import Estimate, Observed, estimate
from quotas.calibration.parameters import Parameters
from quotas.calibration.percentiles import load_quantile
from quotas.calibration.recommend import change
from quotas.calibration.trend import daily_peaks, outlook
from quotas.observations.arrays import Floats
from quotas.simulation.fast_replay import ArrivalBatch

RECOMMENDER = "recommender"
MOST_REFITS = 14


@dataclass(frozen=True, slots=True)
class FittedSeries:
    name: SeriesName
    estimate: Estimate | None  # None: no arrivals before the cut
    baselines: Mapping[str, float]  # rule → units per minute
    subject_maxima: Floats  # before the cut
    test_units: float  # after the cut
    test_peak: float  # the most units in one minute after the cut
    test_subject_peak: float  # the same for one subject
    changes: Mapping[str, int]  # rule → how often its limit would have changed after the cut

    def peak_of(self, by_subject: bool) -> float:
        return max(1.0, self.test_subject_peak if by_subject else self.test_peak)


def fit(
    name: SeriesName, pieces: Iterable[ArrivalBatch], cut_us: int, end_us: int, parameters: Parameters
) -> FittedSeries:
    history, later = _History(), SubjectMaxima()
    minutes: list[Counts] = []
    for piece in pieces:
        cut = int(np.searchsorted(piece.times_us, cut_us))
        history.add(piece.cut(0, cut))
        later.add(piece.cut(cut, len(piece)))
        minutes.append(Counts.of(piece.times_us // SECOND_US, MINUTE_S, piece.costs))
    whole, cut_s = joined(minutes, MINUTE_S), cut_us / SECOND_US
    test = whole.between(cut_s, np.inf)
    past = whole.between(0, cut_s)
    return FittedSeries(
        name,
        history.estimate(name, past, cut_s, parameters),
        {rule.name: rule.units(past, cut_s) for rule in RULES},
        history.maxima.values(),
        test.total,
        test.peak,
        float(later.values().max(initial=0.0)),
        _changes(whole, cut_s, end_us / SECOND_US, parameters) if len(past) else {},
    )


class _History:
    """Arrivals before the cut."""

    def __init__(self) -> None:
        self.maxima = SubjectMaxima()
        self._seconds: list[Counts] = []

    def add(self, batch: ArrivalBatch) -> None:
        if len(batch):
            self.maxima.add(batch)
            self._seconds.append(Counts.of(batch.times_us // SECOND_US, 1, batch.costs))

    def estimate(self, name: SeriesName, past: Counts, now_s: float, parameters: Parameters) -> Estimate | None:
        if not self._seconds:
            return None
        seconds = joined(self._seconds, 1)
        demand = Demand(past, np.zeros(len(past), dtype=bool))
        observed = Observed(name.tenant, name.endpoint, demand, seconds, float(seconds.starts_s[0]))
        return estimate(observed, now_s, parameters)


def _changes(whole: Counts, cut_s: float, end_s: float, parameters: Parameters) -> dict[str, int]:
    """How often each rule would have moved by more than the tolerated change, if refitted once a day."""
    days = max(1, round((end_s - cut_s) / DAY_S))
    refits = _Refits.of(whole, np.linspace(cut_s, end_s, min(MOST_REFITS, days) + 1))
    found = {rule.name: _moves(refits.values(rule.units), parameters) for rule in RULES}
    return found | {RECOMMENDER: _proposals(refits, parameters)}


@dataclass(frozen=True, slots=True)
class _Refits:
    """What is known at each of some later times."""

    times: list[float]
    pasts: list[Counts]

    @classmethod
    def of(cls, whole: Counts, times: Floats) -> _Refits:
        ends = np.searchsorted(whole.starts_s, times).tolist()
        return cls(times.tolist(), [Counts(whole.step_s, whole.starts_s[:end], whole.units[:end]) for end in ends])

    def values(self, rule: Callable[[Counts, float], float]) -> list[float]:
        """Fits again only where there is more to know: time alone ages all weights alike, which moves no quantile."""
        values: list[float] = []
        for place, (past, time_s) in enumerate(zip(self.pasts, self.times, strict=True)):
            is_known = place > 0 and len(past) == len(self.pasts[place - 1])
            values.append(values[-1] if is_known else rule(past, time_s))
        return values

    def new_peaks(self) -> Iterator[float]:
        """The most units in one step between each time and the next."""
        for before, after in pairwise(self.pasts):
            yield float(after.units[len(before) :].max(initial=0.0))


def _moves(values: list[float], parameters: Parameters) -> int:
    current, count = values[0], 0
    for value in values[1:]:
        if abs(value - current) >= parameters.small_change * current:
            current, count = value, count + 1
    return count


def _proposals(refits: _Refits, parameters: Parameters) -> int:
    """How often the recommender would have proposed a change of the rate; the burst changes with it."""
    points, times = _wanted(refits, parameters), refits.times
    current, count, below_since = points[0], 0, times[0]
    for wanted, peak, now in zip(points[1:], refits.new_peaks(), times[1:], strict=True):
        if peak / MINUTE_S > parameters.down_below * current.rate:
            below_since = now
        step = change(current, wanted, (now - below_since) / DAY_S, parameters)
        if step is not None:
            current, count = step.proposed, count + 1
    return count


def _wanted(refits: _Refits, parameters: Parameters) -> list[Point]:
    def quantile(past: Counts, now_s: float) -> float:
        return load_quantile(past, parameters.rate_quantile, now_s, parameters.half_life_days)

    return [
        Point(max(1e-9, rate * _outlook(past, now_s, parameters) * parameters.margin), 1)
        for rate, past, now_s in zip(refits.values(quantile), refits.pasts, refits.times, strict=True)
    ]


def _outlook(past: Counts, now_s: float, parameters: Parameters) -> float:
    if len(past) < parameters.trend_days:
        return 1.0  # so few minutes are on too few days to show a trend
    return outlook(daily_peaks(past, now_s), parameters)
