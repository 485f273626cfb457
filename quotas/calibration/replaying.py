"""What limits would have rejected of one tenant's arrivals on one endpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from headroom_edge.algorithms import FixedWindow, TokenBucket
from headroom_edge.plan.subject import TENANT, Subject
from quotas.policies.spec import Limit
from quotas.simulation.fast import ALLOWED, Batch, FastReplay

BY_SUBJECT = Subject.parse("subject")


@dataclass(frozen=True, slots=True)
class Assigned:
    algorithm: TokenBucket | FixedWindow
    by_subject: bool = False

    @property
    def limit(self) -> Limit:
        return Limit("limit", self.algorithm, BY_SUBJECT if self.by_subject else TENANT, unit="cost")


@dataclass(frozen=True, slots=True)
class Rejected:
    series: int
    units: float
    of: float


def replay_series(
    pieces: Iterable[Batch], cut_us: int, number: int, assigned: Mapping[tuple[str, str], Assigned]
) -> dict[tuple[str, str], Rejected]:
    """Arrivals after the cut through each limit for itself; equal limits are replayed once."""
    engines = {one: FastReplay([one.limit]) for one in assigned.values()}
    rejected, total = dict.fromkeys(engines, 0), 0
    for piece in pieces:
        test = piece.cut(int(np.searchsorted(piece.times_us, cut_us)), len(piece))
        total += int(test.costs.sum())
        for one, engine in engines.items():
            rejected[one] += int(test.costs[engine.decide(test).denied_by != ALLOWED].sum())
    return {key: Rejected(number, rejected[one], total) for key, one in assigned.items()}
