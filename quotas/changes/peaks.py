"""Tenants that a cut leaves less than they have asked for in the last four weeks, however small the cut is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Max, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from quotas.changes.affected import Group, Judgement
from quotas.models import Endpoint
from quotas.models.usage_rates import EVERY_ENDPOINT, RatesDay, RatesHour
from quotas.policies.compare import Tightened
from quotas.policies.spec import EVERYWHERE
from quotas.usage.queries.coverage import days_until
from tenants.models import Tenant

PEAKS_SINCE: Final = timedelta(days=28)
MOST_LOOKED_AT: Final = 20  # limits that one edit tightens; an edit of more is a large cut as well


@dataclass(frozen=True, slots=True)
class TenantBelow:
    """A tenant that a cut leaves less than it has asked for."""

    tenant: str
    endpoint: str
    limit: str
    before: str  # in words, as `after`
    after: str
    unit: str
    window_s: int  # in which it asked for `peak`
    peak: int
    left: float  # what would pass in that time


@dataclass(frozen=True, slots=True)
class BelowPeak:
    """A cut, large or small, below what some tenants of a group have asked for."""

    group: Group
    cut: Tightened
    peaks: Mapping[str, tuple[int, int]]  # of those who asked for more: the window in which most is missing, the peak

    @property
    def names(self) -> tuple[str, ...]:
        """Those for whom most is missing first."""
        return tuple(self.peaks)

    def rows(self) -> Iterator[TenantBelow]:
        cut = self.cut
        for name, (window_s, peak) in self.peaks.items():
            left = round(cut.most[window_s], 3)
            yield TenantBelow(name, cut.scope, cut.limit, cut.before, cut.after, cut.unit, window_s, peak, left)

    def __str__(self) -> str:
        others = f" and {len(self.names) - 1:,} more" if len(self.names) > 1 else ""
        unit = "requests" if self.cut.unit == "requests" else "units of cost"
        window_s, peak = self.peaks[self.names[0]]
        asked = f"{self.names[0]}{others} asked for up to {peak:,} {unit} in {window_s} s"
        return f"{asked}, of which {self.cut.most[window_s]:,.0f} would pass"


def below_peaks(judgement: Judgement) -> Iterator[BelowPeak]:
    """For each group, the cuts of its first tightened period; a bounded number of queries."""
    found = [(group, cut) for group in judgement.groups() for cut in _tightened(judgement, group)][:MOST_LOOKED_AT]
    if not found:
        return
    numbers = dict(Endpoint.objects.filter(name__in={cut.scope for _, cut in found}).values_list("name", "number"))
    closed = days_until()
    for group, cut in found:
        number = EVERY_ENDPOINT if cut.scope == EVERYWHERE else numbers.get(cut.scope)
        if number is not None:
            yield from _above(judgement, group, cut, number, closed)


def _tightened(judgement: Judgement, group: Group) -> list[Tightened]:
    if not group.tier and not group.tenant:
        return []  # a global limit counts all tenants together, which is no tenant's peak
    return next((lost for period in judgement.periods(group) if (lost := judgement.tightened_in(period))), [])


def _above(judgement: Judgement, group: Group, cut: Tightened, endpoint: int, closed: datetime) -> Iterator[BelowPeak]:
    found = peaks_above(cut, judgement.rows(group), endpoint, closed)
    names = judgement.named(group, found)
    worst = {number: _worst(cut, tops) for number, tops in found.items() if number in names}
    if worst:
        ordered = sorted(worst, key=lambda number: -worst[number][1] / max(cut.most[worst[number][0]], 1e-9))
        yield BelowPeak(group, cut, {names[number]: worst[number] for number in ordered})


def _worst(cut: Tightened, tops: Mapping[int, int]) -> tuple[int, int]:
    """The window in which the tenant asked for the most of what is left, and how much that was."""
    window = max(cut.most, key=lambda seconds: tops[seconds] / max(cut.most[seconds], 1e-9))
    return window, tops[window]


def peaks_above(
    cut: Tightened, tenants: QuerySet[Tenant], endpoint: int, closed: datetime
) -> dict[int, dict[int, int]]:
    """By tenant and window, the most asked for in four weeks, of those who asked for more than is left.

    `closed`: until when there are rows per day; later hours are read one by one.
    """
    begin = timezone.now() - PEAKS_SINCE
    peaks: dict[int, dict[int, int]] = {}
    for model, since in ((RatesDay, begin), (RatesHour, max(begin, closed))):
        rows: QuerySet[Any] = model._default_manager.filter(start__gte=since, endpoint_number=endpoint)
        for tenant, *tops in _highest(rows.filter(tenant_number__in=tenants.values("number")), cut):
            before = peaks.setdefault(tenant, {})
            for window, top in zip(cut.most, tops, strict=True):
                before[window] = max(top, before.get(window, 0))
    return peaks


def _highest(rows: QuerySet[Any], cut: Tightened) -> Any:
    """Tenants and their peaks, where one lies above the cut; Postgres filters, so that few rows are read."""
    columns: Mapping[int, Any] = {
        window: Coalesce(f"cost_{window}s", f"peak_{window}s") if cut.unit == "cost" else f"peak_{window}s"
        for window in cut.most
    }
    named = {f"asked_{window}": Max(column) for window, column in columns.items()}
    found = rows.order_by().values("tenant_number").annotate(**named)
    above = Q()
    for window, most in cut.most.items():
        above |= Q(**{f"asked_{window}__gt": most})
    return found.filter(above).values_list("tenant_number", *named)
