"""Limits on a trailing window: the exact log, and the counter that estimates it from two numbers."""

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from quotas.algorithms.base import (
    EXACT_MAX,
    TTL_SLACK_MS,
    Outcome,
    ParameterError,
    State,
    Verdict,
    Window,
    duration,
    scaled_size,
    whole,
    window_of,
)
from quotas.algorithms.units import ceil_div, format_duration

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
        return f"never more than {self.limit} in any trailing {format_duration(self.window_us)}"

    def ttl_ms(self) -> int:
        # Two windows: the newest entry may be one window ahead of the clock.
        return ceil_div(2 * self.window_us, 1_000) + TTL_SLACK_MS

    def decide(self, state: State | None, now_us: int, cost: int) -> Outcome:
        state, kept = self._on_the_clock(state or (), now_us, state)
        clock_us = max(now_us, state[-1]) if state else now_us
        live = self._live(state, clock_us)
        if len(live) + cost <= self.limit:
            live += (clock_us,) * cost
            verdict = Verdict(True, self.limit - len(live), live[0] + self.window_us - now_us, 0, 0)
            return Outcome(verdict, live, kept)
        reset_us = live[0] + self.window_us - now_us if live else 0
        verdict = Verdict(False, self.limit - len(live), reset_us, self._retry_us(live, now_us, cost), 0)
        return Outcome(verdict, live, kept)

    def _on_the_clock(self, entries: State, now_us: int, kept: State | None) -> tuple[State, State | None]:
        if not entries or entries[-1] - now_us <= self.window_us:
            return entries, kept
        moved = (now_us,) * len(entries)
        return moved, moved

    def _live(self, entries: State, clock_us: int) -> State:
        return entries[bisect_right(entries, clock_us - self.window_us) :]

    def _retry_us(self, live: State, now_us: int, cost: int) -> int:
        if cost > self.limit:
            return -1
        return live[len(live) + cost - self.limit - 1] + self.window_us - now_us

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
        return f"about {self.limit} in any trailing {span}; close to 2× that against an adversary"

    def ttl_ms(self) -> int:
        # A count matters until the end of the next window, and the stored window may be one ahead.
        return ceil_div(3 * self.window_us, 1_000) + TTL_SLACK_MS

    def decide(self, state: State | None, now_us: int, cost: int) -> Outcome:
        (window, cur, prev), elapsed, kept = self._current(state, now_us)
        estimate = self._estimate(cur, prev, elapsed)
        if estimate + cost * self.window_us <= self.limit * self.window_us:
            cur += cost
            remaining = self._left(cur, prev, elapsed)
            reset_us = self._fits_us(window, cur, prev, remaining + 1) - now_us
            return Outcome(Verdict(True, remaining, reset_us, 0, 0), (window, cur, prev), kept)
        remaining = self._left(cur, prev, elapsed)
        reset_us = self._fits_us(window, cur, prev, remaining + 1) - now_us if remaining < self.limit else 0
        retry_us = -1 if cost > self.limit else self._fits_us(window, cur, prev, cost) - now_us
        return Outcome(Verdict(False, remaining, reset_us, retry_us, 0), (window, cur, prev), kept)

    def _current(self, state: State | None, now_us: int) -> tuple[tuple[int, int, int], int, State | None]:
        """Counts as of now, microseconds since the window began, and the state to keep."""
        window, elapsed = divmod(now_us, self.window_us)
        if state is None or state[0] < window - 1:
            return (window, 0, 0), elapsed, state
        stored, cur, prev = state
        if stored == window - 1:
            return (window, 0, cur), elapsed, state
        if stored == window + 1:
            return (stored, cur, prev), 0, state
        return (window, cur, prev), elapsed, (window, cur, prev)

    def _estimate(self, cur: int, prev: int, elapsed: int) -> int:
        return cur * self.window_us + prev * (self.window_us - elapsed)

    def _left(self, cur: int, prev: int, elapsed: int) -> int:
        return max(0, self.limit * self.window_us - self._estimate(cur, prev, elapsed)) // self.window_us

    def _fits_us(self, window: int, cur: int, prev: int, cost: int) -> int:
        """The first microsecond at which `cost` more passes, if nothing else happens; it does not pass now."""
        span = self.window_us
        if cur + cost <= self.limit:
            return window * span + ceil_div((prev + cur + cost - self.limit) * span, prev)
        return (window + 1) * span + max(0, ceil_div((cur + cost - self.limit) * span, cur))

    def used(self, state: State, at_us: int) -> float:
        (_, cur, prev), elapsed, _ = self._current(state, at_us)
        return self._estimate(cur, prev, elapsed) / self.window_us

    def with_used(self, used: float, at_us: int) -> State:
        return (at_us // self.window_us, math.ceil(used), 0)
