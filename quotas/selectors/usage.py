"""What was asked, allowed and denied, over one of a few spans.

Each span has the rollup that answers it in at most ninety steps, so that a reading costs the same
however long the history is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from quotas.models.usage import (
    BEGINNING,
    LET_THROUGH,
    REFUSED,
    GapRecord,
    Rollup,
    UsageDay,
    UsageHour,
    UsageMinute,
    UsageStep,
)
from quotas.selectors.measured import Measured, drained_at, measured_read, rollup_until
from tenants.models import Tenant

UNKNOWN_TENANT = 0


@dataclass(frozen=True, slots=True)
class Span:
    key: str
    words: str
    rollup: type[Rollup]
    steps: int


SPANS = {
    span.key: span
    for span in (
        Span("15m", "15 minutes", UsageStep, 90),
        Span("1h", "hour", UsageMinute, 60),
        Span("24h", "24 hours", UsageHour, 24),
        Span("14d", "14 days", UsageDay, 14),
    )
}


@dataclass(frozen=True, slots=True)
class Counts:
    allowed: int = 0
    denied: int = 0

    @property
    def asked(self) -> int:
        return self.allowed + self.denied

    @property
    def allowed_share(self) -> float:
        return self.allowed / self.asked if self.asked else 0.0

    @property
    def denied_share(self) -> float:
        return self.denied / self.asked if self.asked else 0.0


@dataclass(frozen=True, slots=True)
class Point:
    """One step; `seconds` is how much of it was measured. 0: nothing is known of it."""

    start: datetime
    counts: Counts
    seconds: float


@dataclass(frozen=True, slots=True)
class TenantUsage:
    number: int
    name: str
    tier: str
    counts: Counts
    series: Sequence[Counts]  # as many as the span has steps


@dataclass(frozen=True, slots=True)
class Usage:
    span: Span
    begin: datetime
    end: datetime
    total: Counts
    points: Sequence[Point]
    tenants: Sequence[TenantUsage]  # most denied first, then most asked
    others: Counts  # of those that are not shown
    other_tenants: int
    active_tenants: int  # registered ones
    denied_tenants: int
    all_tenants: int
    gaps: Sequence[GapRecord]
    drained_at: datetime | None  # None: nothing was ever drained

    @property
    def measured_seconds(self) -> float:
        return sum(point.seconds for point in self.points)


def usage_read(span: Span, now: datetime, *, most_tenants: int = 50) -> Usage:
    step = span.rollup.step
    end = now - (now - BEGINNING) % step + step
    starts = [end - i * step for i in range(span.steps, 0, -1)]
    rows = span.rollup._default_manager.filter(start__gte=starts[0], start__lt=end)
    drained = drained_at()
    measured = measured_read(starts[0], end, rollup_until(span.rollup, drained))
    by_tenant = {number: counts for (number,), counts in _sums(rows, "tenant_number")}
    order = sorted(by_tenant, key=lambda number: (-by_tenant[number].denied, -by_tenant[number].asked, number))
    return Usage(
        span=span,
        begin=starts[0],
        end=end,
        total=_total(by_tenant.values()),
        points=_points(starts, step, {start: counts for (start,), counts in _sums(rows, "start")}, measured),
        tenants=_tenants(order[:most_tenants], by_tenant, rows, starts),
        others=_total(by_tenant[number] for number in order[most_tenants:]),
        other_tenants=len(order[most_tenants:]),
        active_tenants=len(by_tenant.keys() - {UNKNOWN_TENANT}),
        denied_tenants=sum(by_tenant[number].denied > 0 for number in by_tenant.keys() - {UNKNOWN_TENANT}),
        all_tenants=Tenant.objects.count(),
        gaps=measured.all_gaps,
        drained_at=drained,
    )


def _sums(rows: QuerySet[Rollup], *names: str) -> Iterator[tuple[tuple[Any, ...], Counts]]:
    allowed = Coalesce(Sum("count", filter=Q(outcome__in=LET_THROUGH)), 0)
    denied = Coalesce(Sum("count", filter=Q(outcome__in=REFUSED)), 0)
    for *key, let, refused in rows.order_by().values_list(*names).annotate(allowed=allowed, denied=denied):
        # Sums of bigint are numeric in Postgres.
        counts = Counts(int(let), int(refused))
        if counts.asked:
            yield tuple(key), counts


def _total(counts: Iterable[Counts]) -> Counts:
    pairs = [(each.allowed, each.denied) for each in counts]
    return Counts(sum(allowed for allowed, _ in pairs), sum(denied for _, denied in pairs))


def _points(
    starts: Sequence[datetime], step: timedelta, counts: Mapping[datetime, Counts], measured: Measured
) -> list[Point]:
    points = []
    for start in starts:
        found = counts.get(start, Counts())
        points.append(Point(start, found, measured.seconds(start, step, is_empty=not found.asked)))
    return points


def _tenants(
    numbers: Sequence[int], counts: Mapping[int, Counts], rows: QuerySet[Rollup], starts: Sequence[datetime]
) -> list[TenantUsage]:
    known = Tenant.objects.select_related("tier").in_bulk(numbers)
    series: dict[int, dict[datetime, Counts]] = defaultdict(dict)
    for (number, start), each in _sums(rows.filter(tenant_number__in=numbers), "tenant_number", "start"):
        series[number][start] = each
    return [
        TenantUsage(
            number=number,
            name=known[number].name if number in known else _nameless(number),
            tier=known[number].tier.name if number in known else "",
            counts=counts[number],
            series=[series[number].get(start, Counts()) for start in starts],
        )
        for number in numbers
    ]


def _nameless(number: int) -> str:
    return "unknown tenants" if number == UNKNOWN_TENANT else f"removed tenant {number}"
