"""Counters per period: fixed windows aligned to the epoch, and quotas on the tenant's own calendar.

State is the period (index of the window, or its start in whole seconds) and the count in it. A stored period
ahead of the clock by at most one stays the current one: adopting the earlier one would admit twice. Further
ahead, its count moves into the current period.
"""

import math
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from headroom_edge.algorithms.base import (
    DAY_US,
    SECOND_US,
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
    shown,
    whole,
    window_of,
)
from headroom_edge.algorithms.periods import (
    LONGEST_DAYS,
    PERIODS,
    WEEKDAYS,
    Period,
    boundaries,
    calendar_id,
    known_zones,
)

TENANT_ZONE = "tenant"

_MONTH_DAY = re.compile(r"(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")
_DAYS_IN_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True, slots=True)
class _Current:
    """The period that holds now, and what has been counted in it."""

    period: int
    count: int
    end_us: int
    kept: State | None


@dataclass(frozen=True, slots=True)
class _Counted(ABC):
    """One counter per period; the subclasses say which period holds a moment."""

    limit: int

    name: ClassVar[str]
    kind: ClassVar[str]
    width: ClassVar[int] = 2

    @property
    def capacity(self) -> int:
        return self.limit

    @abstractmethod
    def _period(self, now_us: int) -> int: ...

    @abstractmethod
    def _end_us(self, period: int) -> int: ...

    @abstractmethod
    def _far_ahead(self, period: int, current: int) -> bool:
        """More than one period later than the current one."""

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

    def scaled(self, numerator: int, denominator: int) -> Self:
        return replace(self, limit=scaled_size(self.limit, numerator, denominator))


@dataclass(frozen=True, slots=True)
class FixedWindow(_Counted):
    window_us: int

    name: ClassVar[str] = "fixed_window"
    kind: ClassVar[str] = "f"
    fields: ClassVar[tuple[str, ...]] = ("limit", "window")

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Self:
        return cls(whole(fields, "limit"), duration(fields, "window"))

    def describe(self) -> dict[str, Any]:
        return {"limit": self.limit, "window": format_duration(self.window_us)}

    def words(self) -> str:
        span = format_duration(self.window_us)
        return f"{self.limit:,} in each aligned {span}; up to 2× that across a boundary"

    @property
    def window(self) -> Window:
        return window_of(self.limit, self.window_us)

    def ttl_ms(self) -> int:
        # Two windows: after a step back of the clock the stored one may only be about to begin.
        return ceil_div(2 * self.window_us, 1_000) + TTL_SLACK_MS

    def compiled(self) -> dict[str, Any]:
        return {"n": self.limit, "W": self.window_us}

    def _period(self, now_us: int) -> int:
        return now_us // self.window_us

    def _end_us(self, period: int) -> int:
        return (period + 1) * self.window_us

    def _far_ahead(self, period: int, current: int) -> bool:
        return period > current + 1


@dataclass(frozen=True, slots=True)
class CalendarQuota(_Counted):
    """Decides only once it is resolved with `on`: the boundaries depend on the tenant's zone and the date."""

    period: Period
    timezone: str
    anchor: str  # day: empty; week: mon…sun; month: 1…31; year: MM-DD
    starts: tuple[int, ...] = ()  # period boundaries, whole UTC seconds, ascending

    name: ClassVar[str] = "calendar_quota"
    kind: ClassVar[str] = "q"
    fields: ClassVar[tuple[str, ...]] = ("limit", "period", "timezone", "anchor")

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Self:
        limit = whole(fields, "limit")
        period = _period_name(fields)
        return cls(limit, period, _zone(fields), _anchor(fields, period))

    def describe(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"limit": self.limit, "period": self.period, "timezone": self.timezone}
        if self.period != "day":
            fields["anchor"] = int(self.anchor) if self.period == "month" else self.anchor
        return fields

    def words(self) -> str:
        zone = "the tenant's own time zone" if self.timezone == TENANT_ZONE else self.timezone
        begins = {"day": "", "week": f" from {self.anchor}", "month": f" from day {self.anchor}"}
        return f"{self.limit:,} each {self.period}{begins.get(self.period, f' from {self.anchor}')}, midnight in {zone}"

    def boundaries(self, tenant_zone: str, first_s: int, last_s: int) -> tuple[int, ...]:
        """From the start of the period that holds `first_s` to the first boundary after `last_s`."""
        zone = tenant_zone if self.timezone == TENANT_ZONE else self.timezone
        return boundaries(self.period, self.anchor, zone, first_s, last_s)

    def on(self, starts: tuple[int, ...]) -> Self:
        if len(starts) < 2:
            raise ValueError("a calendar needs at least two boundaries")
        return replace(self, starts=starts)

    @property
    def window(self) -> Window:
        return Window(self.limit, LONGEST_DAYS[self.period] * DAY_US // SECOND_US)

    def ttl_ms(self) -> int:
        # Two periods, as for a fixed window, and the hour that a change of the clocks may add to each.
        return 2 * (LONGEST_DAYS[self.period] * DAY_US // 1_000 + 3_600_000) + TTL_SLACK_MS

    def compiled(self) -> dict[str, Any]:
        return {"n": self.limit, "K": calendar_id(self.starts)}

    def _period(self, now_us: int) -> int:
        return self.starts[max(0, bisect_right(self.starts, now_us // SECOND_US) - 1)]

    def _end_us(self, period: int) -> int:
        index = bisect_right(self.starts, period)
        if index < len(self.starts):
            return self.starts[index] * SECOND_US
        # Past the last boundary that was compiled: one more period like the last.
        return (2 * self.starts[-1] - self.starts[-2]) * SECOND_US

    def _far_ahead(self, period: int, current: int) -> bool:
        return period * SECOND_US > self._end_us(current)


def _period_name(fields: dict[str, Any]) -> Period:
    value = fields.pop("period", None)
    for period in PERIODS:
        if value == period:
            return period
    given = "is missing" if value is None else f"cannot be {shown(value)}"
    raise ParameterError("period", f"period {given}; use day, week, month or year")


def _zone(fields: dict[str, Any]) -> str:
    value = fields.pop("timezone", TENANT_ZONE)
    if value == TENANT_ZONE or (isinstance(value, str) and value in known_zones()):
        return str(value)
    raise ParameterError(
        "timezone", f"timezone {shown(value)} is unknown; use an IANA name such as Europe/Paris, or tenant"
    )


def _anchor(fields: dict[str, Any], period: Period) -> str:
    value = fields.pop("anchor", None)
    if period == "day":
        if value is not None:
            raise ParameterError("anchor", "anchor has no meaning for period day; leave it out")
        return ""
    if value is None:
        return {"week": "mon", "month": "1", "year": "01-01"}[period]
    if period == "week" and value in WEEKDAYS:
        return str(value)
    if period == "month" and type(value) is int and 1 <= value <= 31:
        return str(value)
    if period == "year" and isinstance(value, str) and _is_month_day(value):
        return value
    choices = {"week": "one of mon … sun", "month": "a day from 1 to 31", "year": "a date written MM-DD"}
    raise ParameterError("anchor", f"anchor cannot be {shown(value)}; for period {period} give {choices[period]}")


def _is_month_day(text: str) -> bool:
    match = _MONTH_DAY.fullmatch(text)
    return match is not None and int(match[2]) <= _DAYS_IN_MONTH[int(match[1]) - 1]
