"""Pages of the list of tenants, each tenant with its usage in a period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Count, Q, QuerySet, Sum

from quotas.models import Override
from quotas.models.usage import LET_THROUGH, REFUSED
from quotas.overrides import ACTIVE, overrides_in
from quotas.usage.queries.periods import Period
from quotas.usage.queries.traffic import binned, refused_rows, total
from tenants.models import Tenant

PAGE: Final = 50
MOST_DENIED: Final = 200


@dataclass(frozen=True, slots=True)
class TenantFilter:
    beginning: str = ""  # prefix of the name
    tier: str = ""
    only: str = ""  # denied, override, suspended
    after: str = ""  # the last name of the page before


@dataclass(frozen=True, slots=True)
class TenantRow:
    tenant: Tenant
    allowed: int
    denied: int
    series: Sequence[int]  # requests at each point of the period
    overrides: int

    @property
    def asked(self) -> int:
        return self.allowed + self.denied

    @property
    def denied_share(self) -> float:
        return self.denied / self.asked if self.asked else 0.0


@dataclass(frozen=True, slots=True)
class TenantPage:
    rows: Sequence[TenantRow]
    is_whole: bool  # False: there is a next page


def tenants_listed(rows: QuerySet[Tenant], wanted: TenantFilter, period: Period, now: datetime) -> TenantPage:
    """Ordered by name, or by denials for `only="denied"`."""
    found = _filtered(rows, wanted, now)
    if wanted.only == "denied":
        chosen, is_whole = _denied(found, period), True
    else:
        page = list(found.filter(name__gt=wanted.after).order_by("name")[: PAGE + 1])
        chosen, is_whole = page[:PAGE], len(page) <= PAGE
    return TenantPage(_with_usage(chosen, period, now), is_whole)


def _filtered(rows: QuerySet[Tenant], wanted: TenantFilter, now: datetime) -> QuerySet[Tenant]:
    rows = rows.filter(name__startswith=wanted.beginning)
    if wanted.tier:
        rows = rows.filter(tier__name=wanted.tier)
    if wanted.only == "suspended":
        rows = rows.filter(suspended=True)
    if wanted.only == "override":
        rows = rows.filter(pk__in=Override.objects.filter(overrides_in(ACTIVE, now)).values("tenant"))
    return rows


def _denied(rows: QuerySet[Tenant], period: Period) -> list[Tenant]:
    counts = refused_rows(period).values_list("tenant_number").annotate(n=Sum("count"))
    numbers = [number for number, _ in counts.order_by("-n")[:MOST_DENIED]]
    known = rows.in_bulk(numbers)
    return [known[number] for number in numbers if number in known][:PAGE]


def _with_usage(tenants: Sequence[Tenant], period: Period, now: datetime) -> list[TenantRow]:
    numbers = [tenant.number for tenant in tenants]
    usage = _usage(numbers, period)
    active = Override.objects.filter(overrides_in(ACTIVE, now), tenant__in=numbers).order_by()
    overrides = dict(active.values_list("tenant").annotate(Count("pk")))
    return [
        TenantRow(
            tenant,
            sum(let for let, _ in usage.get(tenant.number, {}).values()),
            sum(refused for _, refused in usage.get(tenant.number, {}).values()),
            [sum(usage.get(tenant.number, {}).get(start, (0, 0))) for start in period.starts_over(now)],
            overrides.get(tenant.number, 0),
        )
        for tenant in tenants
    ]


def _usage(numbers: Sequence[int], period: Period) -> Mapping[int, Mapping[datetime, tuple[int, int]]]:
    rows = period.rollup._default_manager.order_by().filter(start__in=period.keys, tenant_number__in=numbers)
    bins = binned(rows, period).values("tenant_number", "bin")
    found: dict[int, dict[datetime, tuple[int, int]]] = {}
    for row in bins.annotate(let=total(*LET_THROUGH), refused=total(*REFUSED)):
        found.setdefault(row["tenant_number"], {})[row["bin"]] = (int(row["let"]), int(row["refused"]))
    return found


def overrides_of(tenant: int, now: datetime, *, most: int = 20) -> list[Override]:
    """Active and upcoming overrides first, then the three that ended last."""
    rows = Override.objects.filter(tenant=tenant).select_related("endpoint", "tenant")
    current = list(rows.filter(~overrides_in("ended", now)).order_by("start")[:most])
    ended = list(rows.filter(Q(overrides_in("ended", now))).order_by("-id")[:3])
    return [*current, *ended]
