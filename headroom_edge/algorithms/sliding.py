"""Limits on a trailing window: the exact log, and the counter that estimates it from two numbers."""

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from headroom_edge.algorithms.base import (
    EXACT_MAX,
    TTL_SLACK_MS,
    Level,
    Outcome,
    ParameterError,
    State,
    Verdict,
    Window,
    ceil_div,
    duration,
    format_duration,
    scaled_size,
    whole,
    window_of,
)

LONGEST_LOG = 10_000


@dataclass(frozen=True, slots=True)
class _Sliding:
    limit: int
    window_us: int

    name: ClassVar[str]
    kind: ClassVar[str]
    fields: ClassVar[tuple[str, ...]] = ("limit", "window")

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Self:
        return cls(whole(fields, "limit"), duration(fields, "window"))

    def describe(self) -> dict[str, Any]:
        return {"limit": self.limit, "window": format_duration(self.window_us)}

    def compiled(self) -> dict[str, Any]:
        return {"n": self.limit, "W": self.window_us}

    @property
    def capacity(self) -> int:
        return self.limit

    @property
    def window(self) -> Window:
        return window_of(self.limit, self.window_us)

    def scaled(self, numerator: int, denominator: int) -> Self:
        return replace(self, limit=scaled_size(self.limit, numerator, denominator))


@dataclass(frozen=True, slots=True)
class SlidingLog(_Sliding):
    """State: the time of every admitted unit within the window, oldest first.

    An entry leaves when it is exactly one window old; the log is trimmed when it admits. A newest entry ahead
    of the clock by at most one window holds the log's own clock there; further ahead, all entries move to now.
    """

    name: ClassVar[str] = "sliding_log"
    kind: ClassVar[str] = "o"
    width: ClassVar[int] = 0

    def __post_init__(self) -> None:
        if self.limit > LONGEST_LOG:
            raise ParameterError(
                "limit", f"limit of a sliding_log is at most {LONGEST_LOG:,}; use sliding_counter for more"
            )

    def words(self) -> str:
        return f"never more than {self.limit:,} in any trailing {format_duration(self.window_us)}"

    def ttl_ms(self) -> int:
        # Two windows: the newest entry may be one window ahead of the clock.
        return ceil_div(2 * self.window_us, 1_000) + TTL_SLACK_MS

    def decide(self, state: State | None, now_us: int, cost: int) -> Outcome:
        clock_us, live, kept = self._look(state, now_us)
        if len(live) + cost <= self.limit:
            live += (clock_us,) * cost
            left = self._level(live, now_us)
            return Outcome(Verdict(True, left.remaining, left.reset_us, 0, 0), live, kept)
        left = self._level(live, now_us)
        retry_us = -1
        if cost <= self.limit:
            retry_us = live[len(live) + cost - self.limit - 1] + self.window_us - now_us
        return Outcome(Verdict(False, left.remaining, left.reset_us, retry_us, 0), live, kept)

    def level(self, state: State | None, now_us: int) -> Level:
        return self._level(self._look(state, now_us)[1], now_us)

    def refund(self, state: State, now_us: int, cost: int, given_us: int, tat_us: int) -> State | None:
        _, live, _ = self._look(state, now_us)
        first = bisect_left(live, given_us)
        last = min(bisect_right(live, given_us), first + cost)
        return live[:first] + live[last:] if last > first else None

    def _look(self, state: State | None, now_us: int) -> tuple[int, State, State | None]:
        """The log's own time, the entries within its window, and the state to keep."""
        if not state:
            return now_us, (), state
        if state[-1] - now_us > self.window_us:
            state = (now_us,) * len(state)
        clock_us = max(now_us, state[-1])
        return clock_us, self._live(state, clock_us), state

    def _level(self, live: State, now_us: int) -> Level:
        return Level(max(0, self.limit - len(live)), live[0] + self.window_us - now_us if live else 0)

    def _live(self, entries: State, clock_us: int) -> State:
        return entries[bisect_right(entries, clock_us - self.window_us) :]

    def used(self, state: State, at_us: int) -> float:
        return float(len(self._live(state, at_us)))

    def with_used(self, used: float, at_us: int) -> State:
        return (at_us,) * math.ceil(used)


@dataclass(frozen=True, slots=True)
class SlidingCounter(_Sliding):
    """State: index of the window, count in it, count in the one before, taken as evenly spread.

    All comparisons are in units × microseconds: cur·W + prev·(W − elapsed) + cost·W ≤ limit·W. A stored window
    ahead of the clock by one stays the current one, at its very start; further ahead, its counts move here.
    """

    name: ClassVar[str] = "sliding_counter"
    kind: ClassVar[str] = "s"
    width: ClassVar[int] = 3

    def __post_init__(self) -> None:
        if self.limit * self.window_us > EXACT_MAX:
            raise ParameterError(
                "limit",
                "limit × window is too large to count exactly; lower limit, shorten window, or use fixed_window",
            )

    def words(self) -> str:
        span = format_duration(self.window_us)
        return f"about {self.limit:,} in any trailing {span}; close to 2× that against an adversary"

    def ttl_ms(self) -> int:
        # A count matters until the end of the next window, and the stored window may be one ahead.
        return ceil_div(3 * self.window_us, 1_000) + TTL_SLACK_MS

    def decide(self, state: State | None, now_us: int, cost: int) -> Outcome:
        now = self._current(state, now_us)
        if now.estimate + cost * self.window_us <= self.limit * self.window_us:
            charged = _Counts(now.window, now.cur + cost, now.prev, now.elapsed, now.span, now.kept)
            left = self._level(charged, now_us)
            verdict = Verdict(True, left.remaining, left.reset_us, 0, 0)
            return Outcome(verdict, charged.state, now.kept)
        left = self._level(now, now_us)
        retry_us = -1 if cost > self.limit else self._fits_us(now, cost) - now_us
        return Outcome(Verdict(False, left.remaining, left.reset_us, retry_us, 0), now.state, now.kept)

    def level(self, state: State | None, now_us: int) -> Level:
        return self._level(self._current(state, now_us), now_us)

    def refund(self, state: State, now_us: int, cost: int, given_us: int, tat_us: int) -> State | None:
        now = self._current(state, now_us)
        if now.window * self.window_us > now_us:  # the clock went back: which window was charged is not known
            return None
        window = given_us // self.window_us
        if window == now.window:
            return (now.window, max(0, now.cur - cost), now.prev)
        if window == now.window - 1:
            return (now.window, now.cur, max(0, now.prev - cost))
        return None

    def _current(self, state: State | None, now_us: int) -> "_Counts":
        window, elapsed = divmod(now_us, self.window_us)
        if state is None or state[0] < window - 1:
            return _Counts(window, 0, 0, elapsed, self.window_us, state)
        stored, cur, prev = state
        if stored == window - 1:
            return _Counts(window, 0, cur, elapsed, self.window_us, state)
        if stored == window + 1:
            return _Counts(stored, cur, prev, 0, self.window_us, state)
        return _Counts(window, cur, prev, elapsed, self.window_us, (window, cur, prev))

    def _level(self, now: "_Counts", now_us: int) -> Level:
        remaining = max(0, self.limit * self.window_us - now.estimate) // self.window_us
        if remaining == self.limit:
            return Level(remaining, 0)
        return Level(remaining, self._fits_us(now, remaining + 1) - now_us)

    def _fits_us(self, now: "_Counts", cost: int) -> int:
        """The first microsecond at which `cost` more passes, if nothing else happens; it does not pass now."""
        cur, prev, span = now.cur, now.prev, self.window_us
        if cur + cost <= self.limit:
            return now.window * span + ceil_div((prev + cur + cost - self.limit) * span, prev)
        return (now.window + 1) * span + max(0, ceil_div((cur + cost - self.limit) * span, cur))

    def used(self, state: State, at_us: int) -> float:
        return self._current(state, at_us).estimate / self.window_us

    def with_used(self, used: float, at_us: int) -> State:
        return (at_us // self.window_us, math.ceil(used), 0)


@dataclass(frozen=True, slots=True)
class _Counts:
    window: int
    cur: int
    prev: int
    elapsed: int
    span: int  # of a window, in microseconds
    kept: State | None

    @property
    def estimate(self) -> int:
        """In units × microseconds."""
        return self.cur * self.span + self.prev * (self.span - self.elapsed)

    @property
    def state(self) -> State:
        return (self.window, self.cur, self.prev)
