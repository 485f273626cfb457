"""Which tenants were denied, by which limits, and under which revisions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Sum
from django.utils import timezone

from quotas.models import Endpoint, LimitName, Revision
from quotas.models.usage import LET_THROUGH, REFUSED, Outcome
from quotas.policies.spec import EPOCH, MICROSECOND
from quotas.usage.queries.denial_counts import OUTCOMES
from quotas.usage.queries.limit_changes import LimitPlace, SinceChange, since_changes_read
from quotas.usage.queries.periods import Period
from quotas.usage.queries.traffic import Traffic, binned, refused_rows, rollup_rows
from tenants.models import Tenant

MOST: Final = 8
MOST_REVISIONS: Final = 40
REASONS: Final[Mapping[str, str]] = {
    Outcome.DENIED: "a limit",
    Outcome.TOO_BIG: "cost above what a limit can give",
    Outcome.SUSPENDED: "tenant suspended",
    Outcome.OVERFLOW: "too many new subjects",
    Outcome.UNKNOWN: "unknown tenant",
    Outcome.DEGRADED_CLOSED: "refused without Redis",
}

_KINDS: Final = {str(outcome): kind for kind, outcome in OUTCOMES.items()}


@dataclass(frozen=True, slots=True)
class DenialCause:
    kind: str  # as the decision log is filtered by it
    reason: str
    limit: str  # empty: no limit was involved
    denied: int
    of_all: float  # share of all denials


@dataclass(frozen=True, slots=True)
class ThrottledTenant:
    tenant: str  # empty: unknown
    tier: str
    endpoint: str  # empty: not registered
    limit: str
    denied: int
    asked: int
    series: Sequence[int]  # denials at each point of the period
    place: LimitPlace
    since_change: SinceChange | None = None  # None: its limit was not changed in the period

    @property
    def is_calm(self) -> bool:
        """Nothing was denied any more since the limit was changed."""
        return self.since_change is not None and self.since_change.is_calm

    @property
    def share(self) -> float:
        return self.denied / self.asked if self.asked else 0.0


@dataclass(frozen=True, slots=True)
class RevisionSpan:
    """The part of the period in which a revision was the newest, and what was denied then."""

    revision: int
    action: str
    since: datetime
    begin: datetime  # of the points that are counted
    end: datetime
    denied: int
    asked: int

    @property
    def share(self) -> float:
        return self.denied / self.asked if self.asked else 0.0


def causes_read(period: Period) -> list[DenialCause]:
    """The most frequent first."""
    rows = rollup_rows(period).filter(outcome__in=REFUSED).values("outcome", "limit_number")
    every = list(rows.annotate(denied=Sum("count")).order_by("-denied"))
    found, of_all = every[:MOST], sum(int(row["denied"]) for row in every)
    names = dict(LimitName.objects.filter(number__in={row["limit_number"] for row in found}).values_list())
    return [
        DenialCause(
            kind=_KINDS.get(row["outcome"], ""),
            reason=REASONS.get(row["outcome"], row["outcome"]),
            limit=names.get(row["limit_number"], ""),
            denied=int(row["denied"]),
            of_all=int(row["denied"]) / of_all,
        )
        for row in found
    ]


def throttled_read(
    period: Period,
    *,
    tenant: int | None = None,
    endpoint: int | None = None,
    most: int = MOST,
    with_changes: bool = True,
) -> list[ThrottledTenant]:
    """Tenant × endpoint × limit, most denied first. `with_changes`: and what was denied since the limit was changed."""
    rows = refused_rows(period, tenant)
    rows = rows if endpoint is None else rows.filter(endpoint_number=endpoint)
    denied = rows.values("tenant_number", "endpoint_number", "limit_number").annotate(denied=Sum("count"))
    top = list(denied.order_by("-denied")[:most])
    if not top:
        return []
    tenants = Tenant.objects.select_related("tier").in_bulk({row["tenant_number"] for row in top})
    endpoints = Endpoint.objects.in_bulk({row["endpoint_number"] for row in top})
    limits = LimitName.objects.in_bulk({row["limit_number"] for row in top})
    asked, series = _details(period, top)
    now = timezone.now()
    starts = period.starts_over(now)
    places = {LimitPlace(*_place(row)): series[_place(row)] for row in top}
    since = since_changes_read(places, period, now) if with_changes else {}
    return [
        ThrottledTenant(
            tenant=known.name if (known := tenants.get(row["tenant_number"])) else "",
            tier=known.tier.name if known else "",
            endpoint=place.name if (place := endpoints.get(row["endpoint_number"])) else "",
            limit=limit.name if (limit := limits.get(row["limit_number"])) else "",
            denied=int(row["denied"]),
            asked=asked[row["tenant_number"], row["endpoint_number"]],
            series=[series[_place(row)].get(start, 0) for start in starts],
            place=LimitPlace(*_place(row)),
            since_change=since.get(LimitPlace(*_place(row))),
        )
        for row in top
    ]


def _place(row: Mapping[str, Any]) -> tuple[int, int, int]:
    return (row["tenant_number"], row["endpoint_number"], row["limit_number"])


def _details(
    period: Period, top: Sequence[Mapping[str, Any]]
) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int, int], dict[datetime, int]]]:
    """What these tenants asked of these endpoints, and when they were denied."""
    rows = period.rollup._default_manager.order_by().filter(
        start__in=period.keys,
        tenant_number__in={row["tenant_number"] for row in top},
        endpoint_number__in={row["endpoint_number"] for row in top},
    )
    asked: dict[tuple[int, int], int] = defaultdict(int)
    series: dict[tuple[int, int, int], dict[datetime, int]] = defaultdict(dict)
    counted = (*REFUSED, *LET_THROUGH)
    columns = ("tenant_number", "endpoint_number", "limit_number", "bin", "outcome")
    for row in binned(rows.filter(outcome__in=counted), period).values(*columns).annotate(n=Sum("count")):
        asked[row["tenant_number"], row["endpoint_number"]] += int(row["n"])
        if row["outcome"] in REFUSED:
            held = series[_place(row)]
            held[row["bin"]] = held.get(row["bin"], 0) + int(row["n"])
    return asked, series


def revisions_within(period: Period) -> list[Revision]:
    """Revisions first published in the period, oldest first; at most the newest MOST_REVISIONS."""
    begin_us, end_us = ((moment - EPOCH) // MICROSECOND for moment in (period.begin, period.end))
    rows = Revision.objects.filter(published_us__gte=begin_us, published_us__lt=end_us)
    newest = rows.order_by("-number").only("number", "author", "reason", "action", "published_us")[:MOST_REVISIONS]
    return sorted(newest, key=lambda row: row.number)


def published_at(revision: Revision) -> datetime:
    return EPOCH + (revision.published_us or 0) * MICROSECOND


def revision_spans(traffic: Traffic, revisions: Sequence[Revision], before: int) -> list[RevisionSpan]:
    """Denials while each revision was the newest, as exact as the points; `before`: the one in force at the start."""
    starts = [(before, "", traffic.period.begin), *((r.number, r.action, published_at(r)) for r in revisions)]
    ends = [since for _, _, since in starts[1:]] + [traffic.period.end]
    found = []
    for (number, action, since), until in zip(starts, ends, strict=True):
        own = [moment for moment in traffic.moments if since <= moment.start + traffic.period.step / 2 < until]
        if asked := sum(m.asked for m in own):
            first, last = own[0].start, own[-1].start + traffic.period.step
            found.append(RevisionSpan(number, action, since, first, last, sum(m.denied for m in own), asked))
    return found
