"""The exact limit on a trailing window: a log of every admitted unit."""

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from typing import ClassVar

from headroom_edge.algorithms.base import (
    LIMIT,
    TTL_SLACK_MS,
    WINDOW,
    Level,
    Outcome,
    Parameter,
    ParameterError,
    PerWindow,
    State,
    Verdict,
    ceil_div,
    format_duration,
)

LONGEST_LOG = 10_000


@dataclass(frozen=True, slots=True)
class SlidingLog(PerWindow):
    """State: the time of every admitted unit within the window, oldest first.

    An entry leaves when it is exactly one window old; the log is trimmed when it admits. Entries may be ahead of the
    clock, because it went back or by a lease; new ones are never before them. If the newest is ahead by more than a
    window, all entries move to now.
    """

    name: ClassVar[str] = "sliding_log"
    kind: ClassVar[str] = "o"
    width: ClassVar[int] = 0
    parameters: ClassVar[tuple[Parameter, ...]] = (replace(LIMIT, most=LONGEST_LOG), WINDOW)

    def __post_init__(self) -> None:
        if self.limit > LONGEST_LOG:
            raise ParameterError(
                "limit", f"limit of a sliding_log is at most {LONGEST_LOG:,}; use sliding_counter for more"
            )

    def words(self) -> str:
        return f"never more than {self.limit:,} in any {format_duration(self.window_us)}"

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
        """The time of new entries, the entries within the window, and the state to keep."""
        if not state:
            return now_us, (), state
        if state[-1] - now_us > self.window_us:
            state = (now_us,) * len(state)
        return max(now_us, state[-1]), self._live(state, now_us), state

    def _level(self, live: State, now_us: int) -> Level:
        return Level(max(0, self.limit - len(live)), live[0] + self.window_us - now_us if live else 0)

    def _live(self, entries: State, now_us: int) -> State:
        return entries[bisect_right(entries, now_us - self.window_us) :]

    def used(self, state: State, at_us: int) -> float:
        return float(len(self._live(state, at_us)))

    def with_used(self, used: float, at_us: int) -> State:
        return (at_us,) * math.ceil(used)
