"""What was measured and what was not: a gap is no zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Subquery

from quotas.models.usage import BEGINNING, DrainState, GapRecord, Rollup, UsageDay, UsageHour, UsageMinute, UsageStep
from quotas.models.usage_rates import FoldName, FoldState

_FOLDS: Final = {
    UsageStep.step: FoldName.STEPS,
    UsageMinute.step: FoldName.MINUTES,
    UsageHour.step: FoldName.HOURS,
    UsageDay.step: FoldName.HOURS,
}


@dataclass(frozen=True, slots=True)
class Coverage:
    """Of [begin, end): from when to when counts are in, and where some may be missing."""

    since: datetime
    until: datetime
    all_gaps: Sequence[GapRecord]

    @property
    def gaps(self) -> list[GapRecord]:
        """Without the time before the first measurement."""
        return [gap for gap in self.all_gaps if not gap.before_all]

    def seconds(self, start: datetime, step: timedelta, *, is_empty: bool) -> float:
        """How much of a step is known; 0: nothing is.

        What a restarted server saved is there, so what was counted within a gap is too low rather than unknown.
        """
        begin, end = max(start, self.since), min(start + step, self.until)
        if is_empty and any(gap.start <= begin and end <= gap.end for gap in self.gaps):
            return 0.0
        return max((end - begin).total_seconds(), 0.0)


def coverage_read(begin: datetime, end: datetime, until: datetime) -> Coverage:
    found = list(GapRecord.objects.filter(end__gt=begin, start__lt=end).order_by("start"))
    since = max((gap.end for gap in found if gap.before_all), default=begin)
    return Coverage(max(since, begin), min(until, end), found)


def drained_at() -> datetime | None:
    """None: nothing was ever drained."""
    state = DrainState.objects.first()
    return state.drained_at if state else None


def rollup_until(rollup: type[Rollup], drained: datetime | None) -> datetime:
    """What was counted before is in this rollup; `drained` is what `drained_at` gave."""
    state = FoldState.objects.filter(name=_FOLDS[rollup.step]).first()
    return state.until if state else drained or BEGINNING


def drained_and_folded(rollup: type[Rollup]) -> tuple[datetime | None, datetime]:
    """What `drained_at` and `rollup_until` give, in one query."""
    folds = FoldState.objects.filter(name=_FOLDS[rollup.step]).values("until")[:1]
    found = DrainState.objects.annotate(folded=Subquery(folds)).values_list("drained_at", "folded").first()
    drained, folded = found or (None, None)
    return drained, folded or drained or BEGINNING


def days_until() -> datetime:
    """Every day before has its rows of rates."""
    state = FoldState.objects.filter(name=FoldName.DAYS).first()
    return state.until if state else BEGINNING
