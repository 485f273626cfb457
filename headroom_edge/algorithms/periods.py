"""Where the periods of a calendar quota begin, in whole UTC seconds. Lua knows no time zones.

A period begins at local midnight. Where that midnight does not exist (clocks go forward over it), it begins
with the day's first instant.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Literal, get_args
from zoneinfo import ZoneInfo, available_timezones

Period = Literal["day", "week", "month", "year"]
PERIODS: tuple[Period, ...] = get_args(Period)
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

# The longest each can be: who paces by quota ÷ seconds never overruns.
LONGEST_DAYS: dict[Period, int] = {"day": 1, "week": 7, "month": 31, "year": 366}


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
