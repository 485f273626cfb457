"""The state of one tenant: its limits, their use and denials, and its quota counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from dashboards.pages.tenant.limits import TenantLimit, sorted_lines
from quotas.models import Endpoint, LimitName
from quotas.models.usage_rates import EVERY_ENDPOINT
from quotas.policies.explain import Standing, standing
from quotas.policies.spec import EVERYWHERE
from quotas.usage.queries.ended_days import daily_quotas, ended_days_read, most_used
from quotas.usage.queries.utilisation import PeakDemand, counters_read, demands_read, denials_by_limit, use_of
from tenants.models import Tenant

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class TenantState:
    """What the tenant page and the portal are built from."""

    tenant: Tenant
    now: datetime
    standing: Standing
    lines: Sequence[TenantLimit]
    numbers: dict[str, int]  # of endpoints, by name
    counters: dict[tuple[str, str], int]


def tenant_state(row: Tenant, now: datetime) -> TenantState:
    numbers = dict(Endpoint.objects.filter(retired=False).values_list("name", "number"))
    names = dict(LimitName.objects.values_list("number", "name"))
    found = standing(tenant=row.name)
    demands = demands_read(row.number, now - DAY, now)
    counters = counters_read(row.number, names, now)
    daily = daily_quotas(row.number, row.timezone, (each.effective for each in found.limits), now)
    peaks = most_used(counters, ended_days_read(daily, numbers).get(row.number, {}))
    lines = sorted_lines(TenantLimit(each, use_of(each.effective, demands, numbers, peaks)) for each in found.limits)
    state = TenantState(row, now, found, lines, numbers, counters)
    denied = denials_by_limit(row.number, now - DAY, now)
    numbered = {name: number for number, name in names.items()}
    return replace(state, lines=[_with_denials(line, state, demands, numbered, denied) for line in lines])


def _with_denials(
    line: TenantLimit,
    state: TenantState,
    demands: Mapping[int, PeakDemand],
    limits: Mapping[str, int],
    denied: Mapping[tuple[int, int], int],
) -> TenantLimit:
    """Adds the share denied by this limit alone; other limits count the same requests."""
    demand = demands.get(EVERY_ENDPOINT if line.scope == EVERYWHERE else state.numbers.get(line.scope, 0))
    if line.effective.is_global or demand is None or not demand.in_all:
        return line
    places = counted_endpoints(line, state)
    own = [
        n
        for (place, limit), n in denied.items()
        if limit == limits.get(line.limit.name) and (not places or place in places)
    ]
    return replace(line, denied_share=sum(own) / demand.in_all)


def counted_endpoints(line: TenantLimit, state: TenantState) -> list[int]:
    """The numbers of the endpoints that the limit counts; empty means all."""
    if line.scope != EVERYWHERE:
        return [state.numbers.get(line.scope, 0)]
    apart = {each.scope for each in state.lines if each.limit.name == line.limit.name and each.scope != EVERYWHERE}
    return [number for name, number in state.numbers.items() if name not in apart] + [0] if apart else []
