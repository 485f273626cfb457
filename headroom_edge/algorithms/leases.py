"""The reference model of leases: how each algorithm charges a block of units, and takes back what was not spent.

A block is charged as if all of it were spent at its end, so no list of leases is kept. Whole numbers only: it must
agree with the kernels in lua/, which say more about the rules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from headroom_edge.algorithms.base import SECOND_US, Algorithm, State, ceil_div
from headroom_edge.algorithms.bucket import Gcra, TokenBucket
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sliding_counter import SlidingCounter
from headroom_edge.algorithms.sliding_log import SlidingLog

# Must match lua/leases.lua.
LONGEST_US, SHORTEST_US = SECOND_US, 1_000
SHARE, LEAST = 4, 8
MOST_CALLS = 1_000_000


@dataclass(slots=True)
class Note:
    """What giving back must know about all leases of one record."""

    since_us: int  # good are the receipts after it
    ends_us: int = 0  # the latest end of any lease
    back_us: dict[object, int] = field(default_factory=dict)  # limit → how far its TAT went back


@dataclass(frozen=True, slots=True)
class Charge:
    state: State
    number: int  # for the receipt


@dataclass(frozen=True, slots=True)
class GivenBack:
    state: State
    moved_us: int = 0  # how far a TAT went back


class Leases(ABC):
    """The leases of one limit."""

    most_units: int | None = None  # in one block

    def longest_us(self) -> int:
        return LONGEST_US

    def rest_us(self, state: State, now_us: int) -> int:
        """Until the charged period is over."""
        return LONGEST_US

    @abstractmethod
    def room(self, state: State, now_us: int, lasts_us: int) -> int: ...

    @abstractmethod
    def charge(self, state: State, now_us: int, lasts_us: int, units: int, back_us: int) -> Charge: ...

    @abstractmethod
    def give_back(
        self, state: State, now_us: int, units: int, number: int, ends_us: int, back_us: int
    ) -> GivenBack | None:
        """None: nothing comes back."""


@dataclass(frozen=True, slots=True)
class BucketLeases(Leases):
    """The number of a receipt is the TAT plus what went back so far. What lies below the latest end stays charged."""

    bucket: TokenBucket | Gcra

    def longest_us(self) -> int:
        return self.bucket.size * self.bucket.P // self.bucket.Q // 4

    def room(self, state: State, now_us: int, lasts_us: int) -> int:
        left = self.bucket.size * self.bucket.P - self._at_end(state, now_us, lasts_us)
        return max(0, left) // self.bucket.P

    def charge(self, state: State, now_us: int, lasts_us: int, units: int, back_us: int) -> Charge:
        after = self._at_end(state, now_us, lasts_us) + units * self.bucket.P
        whole, rest = divmod(after, self.bucket.Q)
        return Charge((now_us + whole, rest), now_us + whole + back_us)

    def give_back(
        self, state: State, now_us: int, units: int, number: int, ends_us: int, back_us: int
    ) -> GivenBack | None:
        backlog, tat_us = self._backlog(state, now_us)
        if tat_us + back_us < number:
            return None
        above = (number - back_us - max(now_us, ends_us)) * self.bucket.Q
        amount = min(units * self.bucket.P, above, backlog)
        if amount <= 0:
            return None
        whole, rest = divmod(backlog - amount, self.bucket.Q)
        return GivenBack((now_us + whole, rest), ceil_div(amount, self.bucket.Q))

    def _at_end(self, state: State, now_us: int, lasts_us: int) -> int:
        return max(self._backlog(state, now_us)[0], lasts_us * self.bucket.Q)

    def _backlog(self, state: State, now_us: int) -> tuple[int, int]:
        """And the TAT, which a step of the clock may correct."""
        backlog = (state[0] - now_us) * self.bucket.Q + state[1] if state[0] >= now_us else 0
        most = self.bucket.size * self.bucket.P + self.bucket.max_wait_us * self.bucket.Q
        return (backlog, state[0]) if backlog <= most else (most, now_us + most // self.bucket.Q)


@dataclass(frozen=True, slots=True)
class PeriodLeases(Leases):
    """A lease ends before its period does, so a block is simply counted."""

    counter: FixedWindow | CalendarQuota
    most_units: int | None = None

    def rest_us(self, state: State, now_us: int) -> int:
        return self.counter.end_us(state[0]) - now_us - 1

    def room(self, state: State, now_us: int, lasts_us: int) -> int:
        return self.counter.limit - state[1]

    def charge(self, state: State, now_us: int, lasts_us: int, units: int, back_us: int) -> Charge:
        return Charge((state[0], state[1] + units), state[0])

    def give_back(
        self, state: State, now_us: int, units: int, number: int, ends_us: int, back_us: int
    ) -> GivenBack | None:
        return GivenBack((state[0], max(0, state[1] - units))) if state[0] == number else None


@dataclass(frozen=True, slots=True)
class CounterLeases(Leases):
    """As for a window: what was granted in the window before comes out of its count."""

    counter: SlidingCounter

    def rest_us(self, state: State, now_us: int) -> int:
        return (state[0] + 1) * self.counter.window_us - now_us - 1

    def room(self, state: State, now_us: int, lasts_us: int) -> int:
        return self.counter.level(state, now_us).remaining

    def charge(self, state: State, now_us: int, lasts_us: int, units: int, back_us: int) -> Charge:
        return Charge((state[0], state[1] + units, state[2]), state[0])

    def give_back(
        self, state: State, now_us: int, units: int, number: int, ends_us: int, back_us: int
    ) -> GivenBack | None:
        window, current, previous = state
        if window == number:
            return GivenBack((window, max(0, current - units), previous))
        if window == number + 1:
            return GivenBack((window, current, max(0, previous - units)))
        return None


@dataclass(frozen=True, slots=True)
class LogLeases(Leases):
    """The entries of a block have the time of its end."""

    log: SlidingLog

    def longest_us(self) -> int:
        return self.log.window_us

    def room(self, state: State, now_us: int, lasts_us: int) -> int:
        return self.log.limit - len(state)

    def charge(self, state: State, now_us: int, lasts_us: int, units: int, back_us: int) -> Charge:
        at_us = max(now_us + lasts_us, state[-1])
        return Charge(state + (at_us,) * units, at_us)

    def give_back(
        self, state: State, now_us: int, units: int, number: int, ends_us: int, back_us: int
    ) -> GivenBack | None:
        if state and state[-1] - now_us > self.log.window_us:
            state = (now_us,) * len(state)
        first = bisect_left(state, number)
        last = min(bisect_right(state, number), first + units)
        return GivenBack(state[:first] + state[last:]) if last > first else None


def leases_of(algorithm: Algorithm) -> Leases | None:
    """None: it is never leased. A queue would lose the spacing of its departures, and slots are held, not spent."""
    if isinstance(algorithm, TokenBucket | Gcra):
        return BucketLeases(algorithm)
    if isinstance(algorithm, FixedWindow):
        return PeriodLeases(algorithm)
    if isinstance(algorithm, CalendarQuota):
        return PeriodLeases(algorithm, most_units=algorithm.limit // 1_000)
    if isinstance(algorithm, SlidingCounter):
        return CounterLeases(algorithm)
    return LogLeases(algorithm) if isinstance(algorithm, SlidingLog) else None


def in_proportion(calls: int, cost: int, want_calls: int, want_cost: int) -> tuple[int, int]:
    """Both shrink alike: who stops when either is used up could not use more of the other."""
    if calls * want_cost <= cost * want_calls:
        return calls, ceil_div(calls * want_cost, want_calls)
    return ceil_div(cost * want_calls, want_cost), cost
