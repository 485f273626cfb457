"""What was counted in a trial, to the unit: by tenant, by time, and in the worst hour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import F, Max, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from quotas.models.usage import BEGINNING, LET_THROUGH, GapRecord, Outcome, Rollup, UsageHour, UsageMinute
from quotas.models.usage_rates import RatesHour
from quotas.trials.scope import TrialScope, Window
from quotas.usage.queries.coverage import drained_at, rollup_until
from quotas.usage.queries.periods import Period, period_between
from quotas.usage.queries.traffic import binned
from quotas.usage.queries.utilisation import PeakDemand
from tenants.models import Tenant

HOUR: Final = timedelta(hours=1)
MINUTE: Final = timedelta(minutes=1)
FEWEST: Final = 20  # requests of a tenant; a share of less says nothing
ASKED: Final = (*LET_THROUGH, Outcome.DENIED)


@dataclass(slots=True)
class Counts:
    asked: int = 0  # requests that the limits applied to
    would_deny: int = 0  # allowed, and the change would deny them
    would_allow: int = 0  # denied, and the change would allow them
    denied: int = 0  # by the limits as they are

    def add(self, row: dict[str, Any]) -> None:
        self.asked += int(row["asked"])
        self.would_deny += int(row["would_deny"])
        self.would_allow += int(row["would_allow"])
        self.denied += int(row["denied"])

    @property
    def share(self) -> float:
        return self.would_deny / self.asked if self.asked else 0.0


@dataclass(slots=True)
class TenantCounts(Counts):
    tenant: str = ""
    number: int = 0
    worst_at: datetime | None = None  # the minute in which the change would deny most
    worst_would: int = 0
    worst_asked: int = 0
    series: Sequence[int] = ()  # would-be 429s over time


@dataclass(slots=True)
class TrialCounts:
    begin: datetime
    until: datetime  # everything counted before is in
    tenants: list[TenantCounts] = field(default_factory=list)  # with requests, the most would-be 429s first
    total: Counts = field(default_factory=Counts)
    gaps: Sequence[GapRecord] = ()

    @property
    def hit(self) -> int:
        """Tenants that the change would deny something."""
        return sum(row.would_deny > 0 for row in self.tenants)

    @property
    def worst(self) -> TenantCounts | None:
        """By share, of those with enough requests to have one."""
        known = [row for row in self.tenants if row.asked >= FEWEST]
        return max(known, key=lambda row: row.share, default=None)

    @property
    def hours(self) -> float:
        """Measured, without gaps."""
        missing, known_to = timedelta(), self.begin
        # Gaps of different shards may overlap; they are in order of their start.
        for gap in self.gaps:
            begin, end = max(gap.start, known_to), min(gap.end, self.until)
            if end > begin:
                missing, known_to = missing + (end - begin), end
        return max((self.until - self.begin - missing) / HOUR, 0.0)


@dataclass(frozen=True, slots=True)
class Point:
    start: datetime
    asked: int
    would_deny: int
    denied: int
    peaks: PeakDemand | None  # the most requests of one tenant in this hour; None: not measured yet


@dataclass(frozen=True, slots=True)
class WorstHour:
    tenant: str  # empty: all together
    start: datetime
    asked: int
    would_deny: int

    @property
    def share(self) -> float:
        return self.would_deny / self.asked if self.asked else 0.0


def counts_read(scope: TrialScope, window: Window, now: datetime) -> TrialCounts:
    """By tenant. Whole hours that are folded come from the hourly rollup, the rest from the minutes."""
    end = min(window.end or now, now)
    until = min(rollup_until(UsageMinute, drained_at()), end)
    found = TrialCounts(window.begin, max(until, window.begin), gaps=gaps_between(window.begin, end))
    tenants: dict[int, TenantCounts] = {}
    for rows in rollup_parts(scope.where, window.begin, end):
        for row in _summed(rows, scope).values("tenant_number", *_SUMS):
            one = tenants.setdefault(row["tenant_number"], TenantCounts(number=row["tenant_number"]))
            one.add(row)
            found.total.add(row)
    names = dict(Tenant.objects.filter(number__in=tenants).values_list("number", "name"))
    for number, one in tenants.items():
        one.tenant = names.get(number, f"tenant {number}")
    asking = [one for one in tenants.values() if one.asked]
    found.tenants = sorted(asking, key=lambda one: (-one.would_deny, -one.asked, one.tenant))
    return found


_SUMS: Final = ("asked", "would_deny", "would_allow", "denied")


def _summed(rows: QuerySet[Any, Any], scope: TrialScope) -> QuerySet[Any, Any]:
    wanted = {
        "asked": Q(outcome__in=ASKED),
        "would_deny": scope.denies,
        "would_allow": scope.allows,
        "denied": scope.denied,
    }
    sums = {name: Coalesce(Sum("count", filter=kept), 0) for name, kept in wanted.items()}
    grouped: QuerySet[Any, Any] = rows.order_by().values("tenant_number").annotate(**sums)
    return grouped


def rollup_parts(where: Q, begin: datetime, end: datetime) -> Iterator[QuerySet[Any, Any]]:
    """Each minute of the window once."""
    first = begin + (BEGINNING - begin) % HOUR
    folded = rollup_until(UsageHour, drained_at())
    last = min(folded, end) - (min(folded, end) - BEGINNING) % HOUR
    if last <= first:
        yield _within(UsageMinute, where, begin, end)
        return
    yield _within(UsageHour, where, first, last)
    if begin < first:
        yield _within(UsageMinute, where, begin, first)
    yield _within(UsageMinute, where, last, end)


def _rows(model: type[Rollup], scope: TrialScope, begin: datetime, end: datetime) -> QuerySet[Any, Any]:
    return _within(model, scope.where, begin, end)


def _within(model: type[Rollup], where: Q, begin: datetime, end: datetime) -> QuerySet[Any, Any]:
    return model._default_manager.filter(start__gte=begin, start__lt=end).filter(where)


def gaps_between(begin: datetime, end: datetime) -> list[GapRecord]:
    return list(GapRecord.objects.within(begin, end)[:200])


def worst_minutes_read(scope: TrialScope, counts: TrialCounts, shown: Sequence[TenantCounts]) -> None:
    """Fills in the worst minute of the tenants that are shown."""
    hit = {one.number: one for one in shown if one.would_deny}
    if not hit:
        return
    end = counts.until + HOUR
    rows = _rows(UsageMinute, scope, counts.begin, end).filter(tenant_number__in=hit)
    minutes = rows.filter(scope.denies).order_by().values("tenant_number", "start").annotate(would=Sum("count"))
    for number, start, would in _worst(minutes.values_list("tenant_number", "start", "would")):
        hit[number].worst_at, hit[number].worst_would = start, would
    starts = {one.worst_at for one in hit.values() if one.worst_at}
    asked = rows.filter(start__in=starts, outcome__in=ASKED).order_by().values("tenant_number", "start")
    for row in asked.annotate(asked=Sum("count")):
        one = hit[row["tenant_number"]]
        if one.worst_at == row["start"]:
            one.worst_asked = int(row["asked"])


def _worst(minutes: QuerySet[Any, Any]) -> list[tuple[int, datetime, int]]:
    """Postgres finds the worst minute of each tenant, so that one row per tenant is read."""
    sql, values = minutes.query.sql_with_params()
    named = f"SELECT DISTINCT ON (tenant) tenant, start, would FROM ({sql}) AS minutes (tenant, start, would)"  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(f"{named} ORDER BY tenant, would DESC, start", values)
        return [(number, start, int(would)) for number, start, would in cursor.fetchall()]


def period_of(counts: TrialCounts, now: datetime) -> Period:
    end = max(counts.until, counts.begin + MINUTE)
    return period_between(counts.begin, end, max(now, end))


def series_read(scope: TrialScope, counts: TrialCounts, shown: Sequence[TenantCounts], period: Period) -> None:
    """Fills in the would-be 429s over time of the tenants that are shown."""
    hit = {one.number: one for one in shown if one.would_deny}
    if not hit:
        return
    rows = _rows(period.rollup, scope, period.begin, period.end).filter(scope.denies, tenant_number__in=hit)
    found: dict[int, dict[datetime, int]] = {number: {} for number in hit}
    for row in binned(rows.order_by(), period).values("tenant_number", "bin").annotate(would=Sum("count")):
        found[row["tenant_number"]][row["bin"]] = int(row["would"])
    for number, one in hit.items():
        one.series = [found[number].get(start, 0) for start in period.starts]


def points_read(scope: TrialScope, period: Period) -> list[Point]:
    """All tenants over time, and the most that one of them asked for within the hour of each point."""
    rows = _rows(period.rollup, scope, period.begin, period.end)
    sums = {
        "asked": Coalesce(Sum("count", filter=Q(outcome__in=ASKED)), 0),
        "would_deny": Coalesce(Sum("count", filter=scope.denies), 0),
        "denied": Coalesce(Sum("count", filter=scope.denied), 0),
    }
    bins = {row["bin"]: row for row in binned(rows.order_by(), period).values("bin").annotate(**sums)}
    peaks = _peaks(scope, period)
    return [
        _point(start, bins.get(start, {}), peaks.get(start - (start - BEGINNING) % HOUR)) for start in period.starts
    ]


def _peaks(scope: TrialScope, period: Period) -> dict[datetime, PeakDemand]:
    """By hour: the highest second, ten seconds and minute of any tenant."""
    rows: QuerySet[Any, Any] = RatesHour.objects.filter(start__gte=period.begin - HOUR, start__lt=period.end)
    most = {name: Max(name) for name in ("peak_1s", "peak_10s", "peak_60s")}
    found = rows.filter(scope.peaks).order_by().values("start").annotate(hour=Max(F("allowed") + F("denied")), **most)
    return {
        row["start"]: PeakDemand(
            in_1s=int(row["peak_1s"]),
            in_10s=int(row["peak_10s"]),
            in_60s=int(row["peak_60s"]),
            in_hour=int(row["hour"]),
            in_all=int(row["hour"]),
            denied=0,
        )
        for row in found
    }


def _point(start: datetime, row: dict[str, Any], peaks: PeakDemand | None) -> Point:
    asked, would, denied = (int(row.get(name, 0)) for name in ("asked", "would_deny", "denied"))
    return Point(start, asked, would, denied, peaks)


def worst_hours_read(scope: TrialScope, begin: datetime, end: datetime) -> tuple[WorstHour | None, WorstHour | None]:
    """Of all tenants together, and of one of them: the hour with the largest share, of hours with enough requests."""
    rows = _rows(UsageHour, scope, begin, end)  # an hour that began before it may have another trial's counts
    sums = {
        "asked": Coalesce(Sum("count", filter=Q(outcome__in=ASKED)), 0),
        "would": Coalesce(Sum("count", filter=scope.denies), 0),
    }
    share = {"share": F("would") * 1.0 / F("asked")}
    of_all = rows.order_by().values("start").annotate(**sums).filter(asked__gte=FEWEST, would__gt=0).annotate(**share)
    of_one = (
        rows.order_by()
        .values("start", "tenant_number")
        .annotate(**sums)
        .filter(asked__gte=FEWEST, would__gt=0)
        .annotate(**share)
    )
    whole, single = of_all.order_by("-share", "start").first(), of_one.order_by("-share", "start").first()
    name = (
        Tenant.objects.filter(number=single["tenant_number"]).values_list("name", flat=True).first() if single else ""
    )
    return (
        WorstHour("", whole["start"], int(whole["asked"]), int(whole["would"])) if whole else None,
        WorstHour(name or "", single["start"], int(single["asked"]), int(single["would"])) if single else None,
    )
