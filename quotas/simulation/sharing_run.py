"""A pool and what its members ask for over ten seconds: who gets what, and when. For the simulator page.

Members are tenants, each with a share of its own; or keys of teams, which all have the same share; or they ask the pool
itself, by priority.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.bucket import TokenBucket
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.plan.priority import USUAL, Priority
from quotas.observations.arrays import Flags, Ints, whole_numbers
from quotas.policies.chains import Promise, promise
from quotas.simulation.algorithm_comparison import Timeline, most_within
from quotas.simulation.pool_replay import BETWEEN, BORROWED, CAUSES, OWN, POOL, SHARE, PoolMember, replay_pool
from quotas.simulation.scenarios.model import BASE_US

SECONDS = 10
STEP_US = 250_000
LAST_S = 2  # of the run: what members get once it has settled
ORG, TEAM = "org", "team"
LINE = Timeline(BASE_US, STEP_US, SECONDS * SECOND_US // STEP_US)


@dataclass(frozen=True, slots=True)
class Demand:
    """Requests per second: `first`, and `then` from `at_s` on."""

    first: int
    then: int
    at_s: int

    @property
    def count(self) -> int:
        return self.first * self.at_s + self.then * (SECONDS - self.at_s)

    def times_us(self, place: int) -> Ints:
        """Evenly spread. Members of different places do not ask in the same microsecond."""
        spans = ((self.first, 0, self.at_s), (self.then, self.at_s, SECONDS))
        parts = [
            begin_s * SECOND_US + np.arange(rate * (end_s - begin_s)) * SECOND_US // rate
            for rate, begin_s, end_s in spans
            if rate
        ]
        return whole_numbers(BASE_US + place * 7 + np.concatenate(parts or [np.empty(0, np.int64)]))


@dataclass(frozen=True, slots=True)
class Sharer:
    name: str
    share: Borrowing | None  # None: it asks the pool itself
    demand: Demand
    priority: Priority = USUAL
    team: str = ""


@dataclass(frozen=True, slots=True)
class SharingSetup:
    pool: Pool
    sharers: tuple[Sharer, ...]
    team: Borrowing | None = None  # between the pool and the keys; None: the members are tenants

    @property
    def count(self) -> int:
        return sum(sharer.demand.count for sharer in self.sharers)

    @property
    def promise(self) -> Promise:
        """What the pool has guaranteed to those that borrow from it."""
        teams = {sharer.team for sharer in self.sharers}
        shares = [self.team] * len(teams) if self.team else [sharer.share for sharer in self.sharers]
        return promise(self.pool, [share for share in shares if share])


@dataclass(frozen=True)
class SharerRun:
    """What one member got. `outcomes`: OWN, BORROWED, BETWEEN or the cause of the denial, for each request."""

    sharer: Sharer
    times_us: Ints
    outcomes: Ints

    @cached_property
    def allowed(self) -> Flags:
        return np.isin(self.outcomes, (OWN, BORROWED, BETWEEN))

    def count(self, *outcomes: int) -> int:
        return int(np.isin(self.outcomes, outcomes).sum())

    @property
    def denied_by(self) -> dict[str, int]:
        return {cause: self.count(number) for cause, number in CAUSES.items()}

    def per_second(self, flags: Flags) -> list[float]:
        return [count * SECOND_US / STEP_US for count in LINE.counts(self.times_us[flags])]

    @property
    def settled(self) -> float:
        """Requests per second that it gets at the end of the run."""
        last = self.times_us >= BASE_US + (SECONDS - LAST_S) * SECOND_US
        return int((self.allowed & last).sum()) / LAST_S

    @property
    def asked_at_last(self) -> int:
        return self.sharer.demand.then

    @cached_property
    def first_wait_us(self) -> int | None:
        """From its first request until one of its requests passes; None: none does."""
        passed = self.times_us[self.allowed]
        return int(passed[0] - self.times_us[0]) if len(passed) else None

    @cached_property
    def kept_waiting_us(self) -> int:
        """The longest time for which requests within its guaranteed share were refused."""
        own = self.sharer.share.own if self.sharer.share else None
        return _kept_waiting_us(own, self.times_us.tolist(), self.outcomes.tolist()) if own else 0


def _kept_waiting_us(own: TokenBucket, times_us: list[int], outcomes: list[int]) -> int:
    longest, tat, since_us = 0, 0, None
    for now_us, outcome in zip(times_us, outcomes, strict=True):
        after = max(tat, now_us * own.Q) + own.P
        if outcome == OWN:
            longest = max(longest, now_us - since_us if since_us is not None else 0)
            tat, since_us = after, None
        elif outcome in (SHARE, POOL) and since_us is None and after <= now_us * own.Q + own.size * own.P:
            since_us = now_us
    return longest


@dataclass(frozen=True)
class SharingRun:
    setup: SharingSetup
    sharers: list[SharerRun]

    @cached_property
    def most_in_a_second(self) -> int:
        return most_within(np.sort(np.concatenate([run.times_us[run.allowed] for run in self.sharers])), SECOND_US)

    @property
    def bound(self) -> int:
        """What the pool lets through at most in any second."""
        pool = self.setup.pool
        return pool.burst + pool.rate * SECOND_US // pool.per_us


def run_sharing(setup: SharingSetup) -> SharingRun:
    times = [sharer.demand.times_us(place) for place, sharer in enumerate(setup.sharers)]
    members = [
        PoolMember(sharer.name, sharer.share, times_us, np.ones(len(times_us), np.int64), sharer.priority, sharer.team)
        for sharer, times_us in zip(setup.sharers, times, strict=True)
    ]
    teams = {sharer.team: setup.team for sharer in setup.sharers if setup.team}
    runs = zip(setup.sharers, times, replay_pool(setup.pool, members, teams), strict=True)
    return SharingRun(setup, [SharerRun(sharer, times_us, found.outcomes) for sharer, times_us, found in runs])
