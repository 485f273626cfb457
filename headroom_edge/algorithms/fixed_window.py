"""A counter for each window of fixed length, aligned to the epoch; and the model it shares with calendar quotas."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from headroom_edge.algorithms.base import (
    TTL_SLACK_MS,
    Level,
    Outcome,
    PerWindow,
    State,
    Verdict,
    ceil_div,
    format_duration,
)


@dataclass(frozen=True, slots=True)
class _Current:
    """The current period and its count."""

    period: int
    count: int
    end_us: int
    kept: State | None


class PeriodCounter(ABC):
    """The model of one counter for each period, shared by fixed windows and calendar quotas.

    State is the period (the index of a window, or the start in whole seconds) and the count in it. A stored
    period ahead of the clock by at most one stays the current one: adopting the earlier one would admit
    twice. Further ahead, its count moves into the current period.
    """

    __slots__ = ()

    limit: int
    width: ClassVar[int] = 2

    @abstractmethod
    def _period(self, now_us: int) -> int: ...

    @abstractmethod
    def _end_us(self, period: int) -> int: ...

    @abstractmethod
    def _far_ahead(self, period: int, current: int) -> bool:
        """Whether `period` is more than one period after the current one."""

    def decide(self, state: State | None, now_us: int, cost: int) -> Outcome:
        current = self._current(state, now_us)
        end_us = current.end_us - now_us
        if current.count + cost <= self.limit:
            count = current.count + cost
            verdict = Verdict(True, self.limit - count, end_us, 0, 0)
            return Outcome(verdict, (current.period, count), current.kept)
        left = self._level(current, now_us)
        verdict = Verdict(False, left.remaining, left.reset_us, -1 if cost > self.limit else end_us, 0)
        return Outcome(verdict, (current.period, current.count), current.kept)

    def level(self, state: State | None, now_us: int) -> Level:
        return self._level(self._current(state, now_us), now_us)

    def refund(self, state: State, now_us: int, cost: int, given_us: int, tat_us: int) -> State | None:
        current = self._current(state, now_us)
        if current.kept is None or current.kept[0] != current.period or self._period(given_us) != current.period:
            return None
        return (current.period, max(0, current.count - cost))

    def _level(self, current: _Current, now_us: int) -> Level:
        return Level(max(0, self.limit - current.count), current.end_us - now_us if current.count else 0)

    def _current(self, state: State | None, now_us: int) -> _Current:
        period = self._period(now_us)
        if state is None or state[0] < period:
            return _Current(period, 0, self._end_us(period), state)
        if state[0] > period and self._far_ahead(state[0], period):
            state = (period, state[1])
        return _Current(state[0], state[1], self._end_us(state[0]), state)

    def used(self, state: State, at_us: int) -> float:
        return float(self._current(state, at_us).count)

    def with_used(self, used: float, at_us: int) -> State:
        return (self._period(at_us), math.ceil(used))


@dataclass(frozen=True, slots=True)
class FixedWindow(PerWindow, PeriodCounter):
    name: ClassVar[str] = "fixed_window"
    kind: ClassVar[str] = "f"

    def words(self) -> str:
        span = format_duration(self.window_us)
        return f"{self.limit:,} in each aligned {span}; up to 2× that across a boundary"

    def ttl_ms(self) -> int:
        # Two windows: after a step back of the clock the stored one may only be about to begin.
        return ceil_div(2 * self.window_us, 1_000) + TTL_SLACK_MS

    def _period(self, now_us: int) -> int:
        return now_us // self.window_us

    def _end_us(self, period: int) -> int:
        return (period + 1) * self.window_us

    def _far_ahead(self, period: int, current: int) -> bool:
        return period > current + 1
