"""Which times were measured. Where counts are missing, a chart shows a gap, never a zero."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import Subquery

from headroom_edge import keys
from quotas.models.usage import BEGINNING, DrainState, GapRecord, Rollup, UsageDay, UsageHour, UsageMinute, UsageStep
from quotas.models.usage_rates import FoldName, FoldState
from tenants.models import Tenant

_FOLDS: Final = {
    UsageStep.step: FoldName.STEPS,
    UsageMinute.step: FoldName.MINUTES,
    UsageHour.step: FoldName.HOURS,
    UsageDay.step: FoldName.HOURS,
}


@dataclass(frozen=True, slots=True)
class Coverage:
    """Between which times of a span the counts are complete, and the gaps in it where some may be missing."""

    since: datetime
    until: datetime
    all_gaps: Sequence[GapRecord]

    @property
    def gaps(self) -> list[GapRecord]:
        """Without the time before the first measurement."""
        return [gap for gap in self.all_gaps if not gap.before_all]

    def seconds(self, start: datetime, step: timedelta, *, is_empty: bool) -> float:
        """How many seconds of a step are known.

        A restarted server keeps what it had saved, so a step within a gap that has counts is too low, not unknown.
        """
        begin, end = max(start, self.since), min(start + step, self.until)
        if is_empty and any(gap.start <= begin and end <= gap.end for gap in self.gaps):
            return 0.0
        return max((end - begin).total_seconds(), 0.0)


def coverage_read(begin: datetime, end: datetime, until: datetime, shards: Collection[int] | None = None) -> Coverage:
    """`shards`: of the tenants that it is about; None: everybody."""
    found = list(GapRecord.objects.within(begin, end).of_shards(shards))
    since = max((gap.end for gap in found if gap.before_all), default=begin)
    return Coverage(max(since, begin), min(until, end), found)


def shards_of(tenants: Iterable[str]) -> frozenset[int]:
    """By the tenants' names."""
    return frozenset(keys.shard_of(name, settings.HEADROOM_SHARDS) for name in tenants)


def shards_of_numbers(numbers: Collection[int]) -> frozenset[int]:
    return shards_of(Tenant.objects.filter(number__in=numbers).values_list("name", flat=True))


def drained_at(shards: Collection[int] | None = None) -> datetime | None:
    """None: nothing was ever drained. `shards`: by when all of these were; None: those that could be drained."""
    state = DrainState.objects.first()
    if state is None:
        return None
    return state.drained_at if shards is None else state.drained_of(shards)


def rollup_until(rollup: type[Rollup], drained: datetime | None) -> datetime:
    """Everything counted before this time is in the rollup; `drained` is the result of `drained_at`."""
    state = FoldState.objects.filter(name=_FOLDS[rollup.step]).first()
    return state.until if state else drained or BEGINNING


def drained_and_folded(
    rollup: type[Rollup], tenants: Collection[int] | None = None
) -> tuple[datetime | None, datetime]:
    """The results of `drained_at` and `rollup_until`, in one query.

    `tenants`: their numbers. Their shards may wait for a primary, while those of others are drained.
    """
    folds = FoldState.objects.filter(name=_FOLDS[rollup.step]).values("until")[:1]
    state = DrainState.objects.annotate(folded=Subquery(folds)).first()
    if state is None:
        return None, BEGINNING
    until = state.folded or state.drained_at
    if not state.owners or tenants is None:
        return state.drained_at, until
    drained = state.drained_of(shards_of_numbers(tenants))
    return drained, min(drained, until)


def days_until() -> datetime:
    """Every day before this time has its rows of rates."""
    state = FoldState.objects.filter(name=FoldName.DAYS).first()
    return state.until if state else BEGINNING
