"""The period that a page shows: its points, and the rollup to read them from.

A period has at most MOST_POINTS points, so reading a month costs about as much as reading an hour.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from django.conf import settings

from quotas.models.usage import BEGINNING, ROLLUPS, Rollup, UsageHour, UsageMinute, UsageStep, floored

MOST_POINTS: Final = 130
SHORTEST: Final = timedelta(minutes=1)
LONGEST: Final = timedelta(days=400)
WEEK: Final = timedelta(days=7)
LATE: Final = timedelta(seconds=15)  # until counts have reached the rollups

_SECONDS: Final = (
    10,
    20,
    30,
    60,
    120,
    180,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10800,
    21600,
    43200,
    86400,
    172800,
    345600,
)
STEPS: Final = tuple(timedelta(seconds=seconds) for seconds in _SECONDS)

SPANS: Final[dict[str, tuple[str, timedelta]]] = {
    "15m": ("15 minutes", timedelta(minutes=15)),
    "1h": ("hour", timedelta(hours=1)),
    "6h": ("6 hours", timedelta(hours=6)),
    "24h": ("24 hours", timedelta(hours=24)),
    "7d": ("7 days", timedelta(days=7)),
    "14d": ("14 days", timedelta(days=14)),
}
DEFAULT_SPAN: Final = "1h"


class PeriodError(ValueError):
    """The message is one sentence that says what to change."""


@dataclass(frozen=True, slots=True)
class Period:
    begin: datetime
    end: datetime  # later than now if the last point is not over yet
    step: timedelta
    rollup: type[Rollup]
    span: str = ""  # its key; empty: two given times

    @property
    def starts(self) -> list[datetime]:
        """The start of each point."""
        return [self.begin + i * self.step for i in range((self.end - self.begin) // self.step)]

    def starts_over(self, now: datetime) -> list[datetime]:
        """The starts of complete points: one that has only begun would look like a drop."""
        return [start for start in self.starts if start + self.step + LATE <= now]

    @property
    def keys(self) -> list[datetime]:
        """The start of each rollup row in the period, for index look-ups of one tenant's rows."""
        unit = self.rollup.step
        first = floored(self.begin, unit)
        return [first + i * unit for i in range(-(-(self.end - first) // unit))]

    @property
    def words(self) -> str:
        return f"the last {SPANS[self.span][0]}" if self.span else "the chosen time"

    @property
    def step_words(self) -> str:
        seconds = int(self.step.total_seconds())
        for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
            if seconds >= length:
                return f"{seconds // length} {unit}"
        return f"{seconds} s"

    def a_week_earlier(self, now: datetime) -> Period:
        """The same period a week earlier, as fine as the rollups still kept from then allow."""
        step = max(self.step, UsageMinute.step)
        rollup = _rollup(step, self.begin - WEEK, now)
        step = max(step, rollup.step)
        begin = floored(self.begin - WEEK, step)
        end = begin + -(-(self.end - WEEK - begin) // step) * step
        return replace(self, begin=begin, end=end, step=step, rollup=rollup)


def period_read(span: str, begin: str, end: str, now: datetime) -> Period:
    """From query parameters: a span, or two times in seconds since 1970."""
    if begin or end:
        return period_between(_moment(begin), _moment(end), now)
    if span and span not in SPANS:
        raise PeriodError(f"span must be one of {', '.join(SPANS)}.")
    key = span or DEFAULT_SPAN
    length = SPANS[key][1]
    return replace(_fitted(now - length, now, now), span=key)


def period_between(begin: datetime, end: datetime, now: datetime) -> Period:
    if end <= begin:
        raise PeriodError("to must be later than from.")
    if not (BEGINNING < begin < now and end - begin <= LONGEST):
        raise PeriodError(f"from must be in the past, and to at most {LONGEST.days} days later.")
    return _fitted(begin, max(min(end, now), begin + SHORTEST), now)


def rows_between(begin: datetime, end: datetime, now: datetime) -> Period:
    """Every rollup row of this time, each a point, from the rollup that a chart of this time is drawn from."""
    rollup = _rollup(_step(begin, end), begin, now)
    last = floored(end, rollup.step)
    return Period(floored(begin, rollup.step), last if last == end else last + rollup.step, rollup.step, rollup)


def hours_to(at: datetime) -> Period:
    """The hour at that time and the 23 before: what the figures of lists are summed over."""
    end = floored(at, UsageHour.step) + UsageHour.step
    return Period(end - timedelta(days=1), end, UsageHour.step, UsageHour)


def _moment(text: str) -> datetime:
    try:
        return datetime.fromtimestamp(float(text), UTC)
    except (ValueError, OverflowError, OSError):
        raise PeriodError("from and to are times in seconds since 1970; give both.") from None


def _fitted(begin: datetime, end: datetime, now: datetime) -> Period:
    step = _step(begin, end)
    rollup = _rollup(step, begin, now)
    step = max(step, rollup.step)
    last = floored(end, step) + step
    return Period(max(floored(begin, step), last - MOST_POINTS * step), last, step, rollup)


def _step(begin: datetime, end: datetime) -> timedelta:
    return next((step for step in STEPS if (end - begin) / step <= MOST_POINTS), STEPS[-1])


def _rollup(step: timedelta, begin: datetime, now: datetime) -> type[Rollup]:
    """The coarsest rollup that divides the step, of those kept since `begin`; the coarsest of all if none is."""
    kept = [rollup for rollup in ROLLUPS if begin >= now - timedelta(days=settings.HEADROOM_KEEP_DAYS[rollup.keep])]
    fitting = [rollup for rollup in kept if rollup.step <= step and not step % rollup.step]
    # The finest rollup is folded most often, so it has the newest minute first.
    if UsageStep in fitting and step < timedelta(minutes=2):
        return UsageStep
    return (fitting or kept or [ROLLUPS[-1]])[-1 if fitting else 0]
