"""Cuts below what somebody has asked for at most in the last four weeks, however small the cut."""

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
from quotas.policies.compare import Tightened, tightened
from quotas.policies.spec import EVERYWHERE
from quotas.usage.queries.coverage import days_until
from tenants.models import Tenant

LOOKED_BACK: Final = timedelta(days=28)
MOST_LOOKED_AT: Final = 20  # limits that one edit tightens; a larger one is a cut in some other way too


@dataclass(frozen=True, slots=True)
class BelowPeak:
    group: Group
    cut: Tightened
    names: tuple[str, ...]  # whose peak lies above, the highest first
    window_s: int
    peak: int  # of the first of them

    def __str__(self) -> str:
        others = f" and {len(self.names) - 1:,} more" if len(self.names) > 1 else ""
        unit = "requests" if self.cut.unit == "requests" else "units of cost"
        asked = f"{self.names[0]}{others} asked for up to {self.peak:,} {unit} in {self.window_s} s"
        return f"{asked}, of which {self.cut.most[self.window_s]:,.0f} would pass"


def below_peaks(judgement: Judgement) -> Iterator[BelowPeak]:
    """Of each group, what its first tightened period does; a bounded number of queries."""
    found = [(group, cut) for group in judgement.groups() for cut in _tightened(judgement, group)][:MOST_LOOKED_AT]
    if not found:
        return
    numbers = dict(Endpoint.objects.filter(name__in={cut.scope for _, cut in found}).values_list("name", "number"))
    closed = days_until()
    for group, cut in found:
        number = EVERY_ENDPOINT if cut.scope == EVERYWHERE else numbers.get(cut.scope)
        if number is not None:
            yield from _above(group, cut, judgement.rows(group), number, closed)


def _tightened(judgement: Judgement, group: Group) -> list[Tightened]:
    if not group.tier and not group.tenant:
        return []  # of global limits: what all tenants ask for together is not a tenant's peak
    return next((lost for period in judgement.periods(group) if (lost := tightened(period.before, period.after))), [])


def _above(
    group: Group, cut: Tightened, tenants: QuerySet[Tenant], endpoint: int, closed: datetime
) -> Iterator[BelowPeak]:
    """`closed`: rows of days are there up to then."""
    begin = timezone.now() - LOOKED_BACK
    peaks: dict[int, dict[int, int]] = {}
    for model, since in ((RatesDay, begin), (RatesHour, max(begin, closed))):
        rows: QuerySet[Any] = model._default_manager.filter(start__gte=since, endpoint_number=endpoint)
        for tenant, *tops in _highest(rows.filter(tenant_number__in=tenants.values("number")), cut):
            before = peaks.setdefault(tenant, {})
            for window, top in zip(cut.most, tops, strict=True):
                before[window] = max(top, before.get(window, 0))
    if not peaks:
        return
    window = max(cut.most, key=lambda one: max(tops[one] / cut.most[one] for tops in peaks.values()))
    ordered = sorted(peaks, key=lambda tenant: -peaks[tenant][window])
    names = dict(Tenant.objects.filter(number__in=ordered).values_list("number", "name"))
    yield BelowPeak(group, cut, tuple(names[n] for n in ordered), window, peaks[ordered[0]][window])


def _highest(rows: QuerySet[Any], cut: Tightened) -> Any:
    """Tenant and its peaks, of those that lie above; only these leave the database."""
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
