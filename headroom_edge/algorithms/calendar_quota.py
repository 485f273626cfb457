"""A counter for each day, week, month or year of a calendar, in the tenant's or a named time zone.

Lua knows no time zones: it reads the period boundaries, in whole UTC seconds, that are computed here. A period
begins at local midnight. Where that midnight does not exist (clocks go forward over it), it begins with the
day's first instant.
"""

import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self, get_args
from zoneinfo import ZoneInfo, available_timezones

from headroom_edge.algorithms.base import (
    DAY_US,
    LIMIT,
    SECOND_US,
    TTL_SLACK_MS,
    Parameter,
    ParameterError,
    PeriodCounter,
    Window,
    scaled_size,
    shown,
)

Period = Literal["day", "week", "month", "year"]
PERIODS: tuple[Period, ...] = get_args(Period)
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

# The longest length of each, so that a client that paces by quota ÷ seconds never exceeds the quota.
LONGEST_DAYS: dict[Period, int] = {"day": 1, "week": 7, "month": 31, "year": 366}


TENANT_ZONE = "tenant"

_MONTH_DAY = re.compile(r"(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")
_DAYS_IN_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True, slots=True)
class _PeriodName(Parameter):
    def read(self, fields: dict[str, Any]) -> Period:
        value = fields.pop(self.name, None)
        for period in PERIODS:
            if value == period:
                return period
        given = "is missing" if value is None else f"cannot be {shown(value)}"
        raise ParameterError(self.name, f"period {given}; use day, week, month or year")

    def _values(self) -> dict[str, Any]:
        return {"enum": list(PERIODS)}


@dataclass(frozen=True, slots=True)
class _Zone(Parameter):
    def read(self, fields: dict[str, Any]) -> str:
        value = fields.pop(self.name, self.default)
        if value == TENANT_ZONE or (isinstance(value, str) and value in known_zones()):
            return str(value)
        raise ParameterError(
            self.name, f"timezone {shown(value)} is unknown; use an IANA name such as Europe/Paris, or tenant"
        )


@dataclass(frozen=True, slots=True)
class _Anchor(Parameter):
    """Where in the calendar a period begins."""

    def read(self, fields: dict[str, Any], period: Period) -> str:
        value = fields.pop(self.name, None)
        if period == "day":
            if value is not None:
                raise ParameterError(self.name, "anchor has no meaning for period day; leave it out")
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
        raise ParameterError(self.name, f"anchor cannot be {shown(value)}; for period {period} give {choices[period]}")

    def _values(self) -> dict[str, Any]:
        return {"type": ["string", "integer"]}


PERIOD = _PeriodName("period")
TIMEZONE = _Zone("timezone", "an IANA name, or tenant for its own", default=TENANT_ZONE, is_required=False)
ANCHOR = _Anchor("anchor", "week: mon to sun; month: 1 to 31; year: MM-DD", is_required=False)


@dataclass(frozen=True, slots=True)
class CalendarQuota(PeriodCounter):
    """Call `on` before `decide`: the boundaries depend on the tenant's zone and the date."""

    limit: int
    period: Period
    timezone: str
    anchor: str  # day: empty; week: mon…sun; month: 1…31; year: MM-DD
    starts: tuple[int, ...] = ()  # period boundaries, whole UTC seconds, ascending

    name: ClassVar[str] = "calendar_quota"
    kind: ClassVar[str] = "q"
    parameters: ClassVar[tuple[Parameter, ...]] = (LIMIT, PERIOD, TIMEZONE, ANCHOR)

    @classmethod
    def parse(cls, fields: dict[str, Any]) -> Self:
        limit, period = LIMIT.read(fields), PERIOD.read(fields)
        return cls(limit, period, TIMEZONE.read(fields), ANCHOR.read(fields, period))

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

    def scaled(self, numerator: int, denominator: int) -> Self:
        return replace(self, limit=scaled_size(self.limit, numerator, denominator))

    @property
    def capacity(self) -> int:
        return self.limit

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

    def end_us(self, period: int) -> int:
        index = bisect_right(self.starts, period)
        if index < len(self.starts):
            return self.starts[index] * SECOND_US
        # After the last compiled boundary: one more period as long as the last.
        return (2 * self.starts[-1] - self.starts[-2]) * SECOND_US

    def _far_ahead(self, period: int, current: int) -> bool:
        return period * SECOND_US > self.end_us(current)


def _is_month_day(text: str) -> bool:
    match = _MONTH_DAY.fullmatch(text)
    return match is not None and int(match[2]) <= _DAYS_IN_MONTH[int(match[1]) - 1]


@lru_cache(maxsize=1)
def known_zones() -> frozenset[str]:
    return frozenset(available_timezones())


def boundaries(period: Period, anchor: str, zone: str, first_s: int, last_s: int) -> tuple[int, ...]:
    """From the last boundary at or before `first_s` to the first one after `last_s`."""
    place = ZoneInfo(zone)
    # Two days on either side: no zone is further from UTC than that, and a day may not exist at all.
    start = datetime.fromtimestamp(first_s, UTC).date() - timedelta(days=LONGEST_DAYS[period] + 2)
    end = datetime.fromtimestamp(last_s, UTC).date() + timedelta(days=LONGEST_DAYS[period] + 2)
    instants = sorted({first_instant(day, place) for day in _starts(period, anchor, start, end)})
    low = max(index for index, instant in enumerate(instants) if instant <= first_s)
    high = min(index for index, instant in enumerate(instants) if instant > last_s)
    return tuple(instants[low : high + 1])


def calendar_text(instants: tuple[int, ...]) -> str:
    """As Lua reads it."""
    return json.dumps(instants, separators=(",", ":"))


def calendar_id(instants: tuple[int, ...]) -> str:
    return hashlib.sha256(calendar_text(instants).encode()).hexdigest()[:16]


def first_instant(day: date, place: ZoneInfo) -> int:
    midnight = datetime(day.year, day.month, day.day, tzinfo=place)
    instant = int(midnight.timestamp())
    if datetime.fromtimestamp(instant, place).replace(tzinfo=None) == midnight.replace(tzinfo=None):
        return instant
    return _end_of_gap(int(midnight.replace(fold=1).timestamp()), instant, place)


def _end_of_gap(before: int, after: int, place: ZoneInfo) -> int:
    """The second in (before, after] at which the offset changes."""
    offset = datetime.fromtimestamp(before, place).utcoffset()
    while after - before > 1:
        middle = (before + after) // 2
        if datetime.fromtimestamp(middle, place).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after


def _starts(period: Period, anchor: str, start: date, end: date) -> Iterator[date]:
    """Every date within the span on which a period starts."""
    begins = _begins(period, anchor)
    return (day for day in _days(start, end) if begins(day))


def _begins(period: Period, anchor: str) -> Callable[[date], bool]:
    if period == "week":
        return lambda day: day.weekday() == WEEKDAYS.index(anchor)
    if period == "month":
        return lambda day: day.day == min(int(anchor), _last_day(day))
    if period == "year":
        month, wanted = (int(part) for part in anchor.split("-"))
        return lambda day: day.month == month and day.day == min(wanted, _last_day(day))
    return lambda day: True


def _last_day(day: date) -> int:
    next_month = (day.replace(day=28) + timedelta(days=4)).replace(day=1)
    return (next_month - timedelta(days=1)).day


def _days(start: date, end: date) -> Iterator[date]:
    return (start + timedelta(days=number) for number in range((end - start).days + 1))
