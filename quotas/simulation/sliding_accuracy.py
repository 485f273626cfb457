"""Scenario 14: how often the sliding counter decides differently from the exact log, on realistic arrivals.

Each limit's state follows its own decisions, as in production; a decision is wrong where the two differ.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, islice

from headroom_edge.algorithms.base import SECOND_US, Algorithm, State
from headroom_edge.algorithms.sliding_counter import SlidingCounter
from headroom_edge.algorithms.sliding_log import SlidingLog

LIMIT = 100
WINDOW_US = 60 * SECOND_US
MEAN_REQUESTS = 1_000  # per client

# A client's mean rate as a share of the limit.
LOADS = {"up to 50 % of the limit": 0.5, "50 to 100 %": 1.0, "above the limit": 3.0}

Gaps = Iterator[float]  # seconds between two requests


@dataclass(slots=True)
class AccuracyTally:
    requests: int = 0
    wrongly_denied: int = 0
    wrongly_allowed: int = 0

    @property
    def wrong_share(self) -> float:
        return (self.wrongly_denied + self.wrongly_allowed) / max(1, self.requests)


@dataclass(slots=True)
class Accuracy:
    total: AccuracyTally = field(default_factory=AccuracyTally)
    by_pattern: dict[str, AccuracyTally] = field(default_factory=lambda: defaultdict(AccuracyTally))
    by_load: dict[str, AccuracyTally] = field(default_factory=lambda: {name: AccuracyTally() for name in LOADS})


def measure_accuracy(requests: int, seed: int = 14) -> Accuracy:
    """Many clients against 100/min, most of them well below it, some far above."""
    draw, found = random.Random(seed), Accuracy()
    patterns = list(PATTERNS)
    while found.total.requests < requests:
        pattern = draw.choice(patterns)
        # Log-uniform, from 1 % of the limit to three times the limit.
        load = 3 * 300 ** -draw.random()
        rate = load * LIMIT * SECOND_US / WINDOW_US
        count = min(requests - found.total.requests, 1 + int(draw.expovariate(1 / MEAN_REQUESTS)))
        start = draw.uniform(0, 86_400)
        gaps = islice(PATTERNS[pattern](draw, rate), count)
        times = (int(second * SECOND_US) for second in accumulate(gaps, initial=start))
        _compare(islice(times, count), (found.total, found.by_pattern[pattern], found.by_load[_load_name(load)]))
    return found


def _load_name(load: float) -> str:
    return next(name for name, most in LOADS.items() if load <= most)


def _compare(times: Iterator[int], tallies: tuple[AccuracyTally, ...]) -> None:
    counter, log = _Follower(SlidingCounter(LIMIT, WINDOW_US)), _Follower(SlidingLog(LIMIT, WINDOW_US))
    for now_us in times:
        estimated, exact = counter.admits(now_us), log.admits(now_us)
        for tally in tallies:
            tally.requests += 1
            tally.wrongly_denied += exact and not estimated
            tally.wrongly_allowed += estimated and not exact


class _Follower:
    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self._state: State | None = None

    def admits(self, now_us: int) -> bool:
        outcome = self._algorithm.decide(self._state, now_us, 1)
        self._state = outcome.charged if outcome.verdict.admitted else outcome.kept
        return outcome.verdict.admitted


def _independent(draw: random.Random, rate: float) -> Gaps:
    """Many users behind one key: a Poisson process."""
    while True:
        yield draw.expovariate(rate)


def _clustered(draw: random.Random, rate: float) -> Gaps:
    """Weibull gaps of shape 0.5: quick runs and long pauses. Their mean is twice their scale."""
    while True:
        yield draw.weibullvariate(1 / (2 * rate), 0.5)


def _sessions(draw: random.Random, rate: float) -> Gaps:
    """About twenty requests in two seconds, then a pause that keeps the mean rate."""
    while True:
        size = 1 + int(draw.expovariate(1 / 20))
        yield draw.expovariate(rate / size)
        for _ in range(size - 1):
            yield draw.expovariate(10)


def _polling(draw: random.Random, rate: float) -> Gaps:
    """A timer that is late by at most a tenth of its period."""
    while True:
        yield draw.uniform(1, 1.1) / rate


PATTERNS: dict[str, Callable[[random.Random, float], Gaps]] = {
    "independent": _independent,
    "clustered": _clustered,
    "sessions": _sessions,
    "polling": _polling,
}
