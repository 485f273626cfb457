"""Requests allowed, denied and denied in shadow at each point of a period, for everyone, tiers or tenants."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import DateTimeField, F, Func, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce

from quotas.models.usage import BEGINNING, LET_THROUGH, REFUSED, GapRecord, Outcome, Rollup
from quotas.models.usage_totals import EVERYONE, TOTALS
from quotas.policies.spec import Unit
from quotas.usage.queries.coverage import drained_and_folded, shards_of_numbers
from quotas.usage.queries.periods import Period

MOST_GAPS: Final = 200


@dataclass(frozen=True, slots=True)
class TrafficPoint:
    """`seconds` is how much of the point was measured; 0: nothing is known about it."""

    start: datetime
    allowed: int
    denied: int
    shadow: int  # allowed, but a shadow limit or a candidate would have denied it
    seconds: float
    of: float  # length of the point in seconds

    @property
    def is_known(self) -> bool:
        """At least half of it was measured: a point that has only begun would look like a drop or a peak."""
        return self.seconds >= self.of / 2

    def rate(self, count: int) -> float | None:
        return count / self.seconds if self.is_known else None

    @property
    def asked(self) -> int:
        return self.allowed + self.denied

    @property
    def denied_share(self) -> float | None:
        if not self.is_known:
            return None
        return self.denied / self.asked if self.asked else 0.0


@dataclass(frozen=True, slots=True)
class Traffic:
    period: Period
    moments: Sequence[TrafficPoint]
    gaps: Sequence[GapRecord]
    drained_at: datetime | None  # None: nothing was ever drained

    @property
    def allowed(self) -> int:
        return sum(moment.allowed for moment in self.moments)

    @property
    def denied(self) -> int:
        return sum(moment.denied for moment in self.moments)

    @property
    def asked(self) -> int:
        return self.allowed + self.denied

    @property
    def seconds(self) -> float:
        return sum(moment.seconds for moment in self.moments)

    @property
    def rate(self) -> float | None:
        """Requests per second at the newest known point."""
        known = [moment for moment in self.moments if moment.is_known]
        return known[-1].rate(known[-1].asked) if known else None

    @property
    def denied_share(self) -> float:
        return self.denied / self.asked if self.asked else 0.0


def traffic_read(
    period: Period,
    *,
    owners: Collection[int] = (EVERYONE,),
    endpoints: Collection[int] = (),
    unit: Unit = "requests",
) -> Traffic:
    """`owners`: tenant numbers, or the numbers that totals use for everyone and for tiers. `unit`: what to count."""
    drained_at, until = drained_and_folded(period.rollup, owners if min(owners) >= 0 else None)
    gaps = gaps_within(period, owners)
    counts = {row["bin"]: row for row in _by_bin(rollup_rows(period, owners, endpoints), period, unit)}
    since = max((gap.end for gap in gaps if gap.before_all), default=BEGINNING)
    moments = [_moment(start, period.step, counts.get(start, {}), gaps, since, until) for start in period.starts]
    return Traffic(period, moments, gaps, drained_at)


def gaps_within(period: Period, owners: Collection[int] = (EVERYONE,)) -> list[GapRecord]:
    """Those that concern any of the owners. Tiers have tenants in all shards."""
    rows = GapRecord.objects.within(period.begin, period.end)
    found = list(rows[:MOST_GAPS])
    if min(owners) >= 0 and any(gap.shards is not None for gap in found):
        return list(rows.of_shards(shards_of_numbers(owners))[:MOST_GAPS])
    return found


def rollup_rows(
    period: Period, owners: Collection[int] = (EVERYONE,), endpoints: Collection[int] = ()
) -> QuerySet[Rollup]:
    model = TOTALS[period.rollup] if min(owners) < 0 else period.rollup
    # `start IN (…)` makes one index look-up per start; a range would read every tenant's rows of that time.
    rows = model._default_manager.order_by().filter(start__in=period.keys, tenant_number__in=owners)
    return rows.filter(endpoint_number__in=endpoints) if endpoints else rows


def refused_rows(period: Period, tenant: int | None = None) -> QuerySet[Rollup]:
    """Refused requests by tenant; a partial index covers them."""
    if tenant is not None:
        return rollup_rows(period, [tenant]).filter(outcome__in=REFUSED)
    rows = period.rollup._default_manager.order_by()
    return rows.filter(start__gte=period.begin, start__lt=period.end, outcome__in=REFUSED)


def binned(rows: QuerySet[Rollup], period: Period) -> QuerySet[Any, Any]:
    into = Func(Value(period.step), F("start"), Value(period.begin), function="date_bin", output_field=DateTimeField())
    found: QuerySet[Any, Any] = rows.annotate(bin=into)
    return found


def total(*outcomes: str, unit: Unit = "requests") -> Coalesce:
    column = "count" if unit == "requests" else "cost"
    return Coalesce(Sum(column, filter=Q(outcome__in=outcomes)), 0)


def _by_bin(rows: QuerySet[Rollup], period: Period, unit: Unit) -> QuerySet[Any, Any]:
    bins: QuerySet[Any, Any] = binned(rows, period).values("bin")
    counted: QuerySet[Any, Any] = bins.annotate(
        let=total(*LET_THROUGH, unit=unit),
        refused=total(*REFUSED, unit=unit),
        shadowed=total(Outcome.SHADOW_DENIES, Outcome.CANDIDATE_DENIES, unit=unit),
    )
    return counted


def _moment(
    start: datetime,
    step: timedelta,
    counted: dict[str, Any],
    gaps: Sequence[GapRecord],
    since: datetime,
    until: datetime,
) -> TrafficPoint:
    begin, end = max(start, since), min(start + step, until)
    seconds = max((end - begin).total_seconds(), 0.0)
    allowed, denied = int(counted.get("let", 0)), int(counted.get("refused", 0))
    # A restarted server keeps what it had saved, so a point within a gap that has counts is too low, not unknown.
    if not allowed + denied and any(gap.start <= begin and end <= gap.end for gap in gaps):
        seconds = 0.0
    return TrafficPoint(start, allowed, denied, int(counted.get("shadowed", 0)), seconds, step.total_seconds())
