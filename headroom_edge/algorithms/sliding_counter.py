"""The estimated limit on a trailing window: two counters stand in for the log."""

import math
from dataclasses import dataclass
from typing import ClassVar

from headroom_edge.algorithms.base import (
    EXACT_MAX,
    TTL_SLACK_MS,
    Level,
    Outcome,
    ParameterError,
    PerWindow,
    State,
    Verdict,
    ceil_div,
    format_duration,
)


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


@dataclass(frozen=True, slots=True)
class SlidingCounter(PerWindow):
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
        return f"about {self.limit:,} in any {span}; a hostile client can get close to twice that"

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
        if now.window * self.window_us > now_us:  # the clock went back, so the charged window is unknown
            return None
        window = given_us // self.window_us
        if window == now.window:
            return (now.window, max(0, now.cur - cost), now.prev)
        if window == now.window - 1:
            return (now.window, now.cur, max(0, now.prev - cost))
        return None

    def _current(self, state: State | None, now_us: int) -> _Counts:
        window, elapsed = divmod(now_us, self.window_us)
        if state is None or state[0] < window - 1:
            return _Counts(window, 0, 0, elapsed, self.window_us, state)
        stored, cur, prev = state
        if stored == window - 1:
            return _Counts(window, 0, cur, elapsed, self.window_us, state)
        if stored == window + 1:
            return _Counts(stored, cur, prev, 0, self.window_us, state)
        return _Counts(window, cur, prev, elapsed, self.window_us, (window, cur, prev))

    def _level(self, now: _Counts, now_us: int) -> Level:
        remaining = max(0, self.limit * self.window_us - now.estimate) // self.window_us
        if remaining == self.limit:
            return Level(remaining, 0)
        return Level(remaining, self._fits_us(now, remaining + 1) - now_us)

    def _fits_us(self, now: _Counts, cost: int) -> int:
        """The first microsecond at which `cost` more passes, if nothing else happens; it does not pass now."""
        cur, prev, span = now.cur, now.prev, self.window_us
        if cur + cost <= self.limit:
            return now.window * span + ceil_div((prev + cur + cost - self.limit) * span, prev)
        return (now.window + 1) * span + max(0, ceil_div((cur + cost - self.limit) * span, cur))

    def used(self, state: State, at_us: int) -> float:
        return self._current(state, at_us).estimate / self.window_us

    def with_used(self, used: float, at_us: int) -> State:
        return (at_us // self.window_us, math.ceil(used), 0)
