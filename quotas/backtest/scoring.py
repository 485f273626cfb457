"""Replays limits and scores rules: four numbers, and how often a rule would have changed its limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headroom_edge.algorithms import FixedWindow, TokenBucket
from headroom_edge.plan.subject import TENANT, Subject
from quotas.backtest.fitting import FittedSeries
from quotas.calibration.sizing import minute_allowance
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


@dataclass(frozen=True, slots=True)
class RejectedUnits:
    series: int
    units: float
    of: float


def replay_series(
    pieces: Iterable[ArrivalBatch], cut_us: int, number: int, assigned: Mapping[tuple[str, str], AssignedLimit]
) -> dict[tuple[str, str], RejectedUnits]:
    """Replays the arrivals after the cut through each limit separately; equal limits are replayed once."""
    engines = {one: FastReplay([one.limit]) for one in assigned.values()}
    rejected, total = dict.fromkeys(engines, 0), 0
    for piece in pieces:
        test = piece.cut(int(np.searchsorted(piece.times_us, cut_us)), len(piece))
        total += int(test.costs.sum())
        for one, engine in engines.items():
            rejected[one] += int(test.costs[engine.decide(test).denied_by != ALLOWED].sum())
    return {key: RejectedUnits(number, rejected[one], total) for key, one in assigned.items()}


@dataclass(frozen=True, slots=True)
class RuleScore:
    rejected: float  # share of all units: false 429s, assuming that all traffic was legitimate
    tenants_hit: float  # share of the tenants that saw any 429
    p90_tenant: float  # 90th percentile over tenants of their rejected share
    headroom: float  # median of limit ÷ peak of the replayed time, both per minute
    changes: int  # of limits that the rule would have made during the replay


def score(
    rejected: Sequence[RejectedUnits],
    fitted: Sequence[FittedSeries],
    limits: Mapping[int, AssignedLimit],
    changes: int = 0,
) -> RuleScore:
    tenants: dict[str, list[float]] = {}
    for one in rejected:
        sums = tenants.setdefault(fitted[one.series].name.tenant, [0.0, 0.0])
        sums[0] += one.units
        sums[1] += one.of
    if not tenants:
        return RuleScore(0.0, 0.0, 0.0, 0.0, changes)
    shares = np.array([units / of for units, of in tenants.values()])
    units, of = np.array(list(tenants.values())).sum(axis=0)
    return RuleScore(
        float(units / of),
        float((shares > 0).mean()),
        float(np.quantile(shares, 0.9)),
        median_headroom(limits, fitted, [one.series for one in rejected]),
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
