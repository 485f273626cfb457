"""Replays limits and scores rules: four numbers, and how often a rule would have changed its limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from headroom_edge.algorithms import FixedWindow, TokenBucket
from headroom_edge.plan.subject import TENANT, Subject
from quotas.backtest.fitting import FittedSeries
from quotas.calibration.burst import Point
from quotas.calibration.sizing import MINUTE_US, bucket, minute_allowance, minute_window, point_of
from quotas.policies.spec import Limit
from quotas.simulation.fast_replay import ALLOWED, ArrivalBatch, FastReplay

BY_SUBJECT = Subject.parse("subject")


@dataclass(frozen=True, slots=True)
class AssignedLimit:
    algorithm: TokenBucket | FixedWindow
    by_subject: bool = False

    @property
    def limit(self) -> Limit:
        return Limit("limit", self.algorithm, BY_SUBJECT if self.by_subject else TENANT, unit="cost")

    def scaled(self, factor: float) -> AssignedLimit:
        """With so many times the allowance a minute."""
        held = self.algorithm
        if isinstance(held, FixedWindow):
            return replace(self, algorithm=minute_window(minute_allowance(held) * factor))
        point = point_of(held)
        return replace(self, algorithm=bucket(Point(point.rate * factor, ceil(point.burst * factor))))

    def admits_all(self, one: FittedSeries) -> bool:
        """Whether it is so wide that it denies nothing of what is replayed; then a replay would only cost time."""
        if isinstance(self.algorithm, FixedWindow):
            return self.algorithm.window_us == MINUTE_US and one.peak_of(self.by_subject) <= self.algorithm.limit
        return one.test_units <= self.algorithm.size


def rejected_units(
    pieces: Iterable[ArrivalBatch], cut_us: int, limits: Iterable[AssignedLimit]
) -> dict[AssignedLimit, int]:
    """Replays the arrivals after the cut through each limit separately; equal limits are replayed once."""
    engines = {one: FastReplay([one.limit]) for one in limits}
    rejected = dict.fromkeys(engines, 0)
    for piece in pieces if engines else ():
        test = piece.cut(int(np.searchsorted(piece.times_us, cut_us)), len(piece))
        for one, engine in engines.items():
            rejected[one] += int(test.costs[engine.decide(test).denied_by != ALLOWED].sum())
    return rejected


@dataclass(frozen=True, slots=True)
class RuleScore:
    rejected: float  # share of all units: false 429s, assuming that all traffic was legitimate
    tenants_hit: float  # share of the tenants that saw any 429
    p90_tenant: float  # 90th percentile over tenants of their rejected share
    headroom: float  # median of limit ÷ peak of the replayed time, both per minute
    changes: int  # of limits that the rule would have made during the replay


def score(
    series: Sequence[int],
    rejected: Mapping[int, int],
    fitted: Sequence[FittedSeries],
    limits: Mapping[int, AssignedLimit],
    changes: int = 0,
) -> RuleScore:
    """`series`: those that were replayed; `rejected`: their rejected units, where there are any."""
    tenants: dict[str, list[float]] = {}
    for number in series:
        sums = tenants.setdefault(fitted[number].name.tenant, [0.0, 0.0])
        sums[0] += rejected.get(number, 0)
        sums[1] += fitted[number].test_units
    if not tenants:
        return RuleScore(0.0, 0.0, 0.0, 0.0, changes)
    shares = np.array([units / of for units, of in tenants.values()])
    units, of = np.array(list(tenants.values())).sum(axis=0)
    return RuleScore(
        float(units / of),
        float((shares > 0).mean()),
        float(np.quantile(shares, 0.9)),
        median_headroom(limits, fitted, series),
        changes,
    )


def median_headroom(
    limits: Mapping[int, AssignedLimit], fitted: Sequence[FittedSeries], series: Sequence[int]
) -> float:
    ratios = [
        minute_allowance(limits[number].algorithm) / fitted[number].peak_of(limits[number].by_subject)
        for number in series
    ]
    return float(np.median(ratios)) if ratios else 0.0
