"""How much of its limits a tenant uses: its peak demand against what each limit allows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import F, Max, Sum
from django.db.models.functions import Coalesce

from headroom_edge import keys
from headroom_edge.algorithms.base import DAY_US, SECOND_US
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from headroom_edge.algorithms.sharing import Borrowing
from headroom_edge.plan.subject import Subject
from quotas.models import Endpoint
from quotas.models.calendar_counter import CalendarCounter
from quotas.models.usage import BEGINNING, REFUSED, UsageHour
from quotas.models.usage_rates import EVERY_ENDPOINT, RatesHour
from quotas.policies.allowance import Allowance, allowance_of
from quotas.policies.limit_words import subject_words
from quotas.policies.resolve import Effective
from quotas.policies.spec import EPOCH, EVERYWHERE, MICROSECOND, Unit

HOUR_S: Final = 3600
DAY_S: Final = DAY_US // SECOND_US


@dataclass(frozen=True, slots=True)
class PeakDemand:
    """One tenant on one endpoint: the most requests in a window of each length, and the sum."""

    in_1s: int  # requests
    in_10s: int
    in_60s: int
    in_hour: int
    in_all: int
    denied: int
    cost_1s: int = 0
    cost_10s: int = 0
    cost_60s: int = 0

    def peak(self, window_s: float, unit: Unit = "requests") -> float:
        """The most units in a window of this length, scaled from the measured window below it."""
        seconds = (self.in_1s, self.in_10s, self.in_60s) if unit == "requests" else self._costs
        if window_s < 10:
            return seconds[0] * max(window_s, 1)
        if window_s < 60:
            return seconds[1] * window_s / 10
        if window_s < HOUR_S:
            return seconds[2] * window_s / 60
        # The cost of an hour is not stored: assume the mean cost of the busiest minute.
        ratio = 1.0 if unit == "requests" else self.cost_60s / max(self.in_60s, 1)
        return ratio * (self.in_hour * window_s / HOUR_S if window_s < DAY_S else self.in_all)

    @property
    def _costs(self) -> tuple[int, int, int]:
        return (self.cost_1s, self.cost_10s, self.cost_60s)


@dataclass(frozen=True, slots=True)
class LimitUse:
    """Demand against a limit. `share` above 1: the demand exceeded the limit."""

    share: float | None  # None: not measured
    peak: float | None = None  # units in the limit's window
    why_not: str = ""  # why there is no share


def demands_read(tenant: int, begin: datetime, end: datetime) -> dict[int, PeakDemand]:
    """By endpoint number; EVERY_ENDPOINT is all endpoints together."""
    return demands_of_many([tenant], begin, end).get(tenant, {})


def demands_of_many(tenants: Collection[int], begin: datetime, end: datetime) -> dict[int, dict[int, PeakDemand]]:
    """By tenant and endpoint, in one query."""
    rows = RatesHour.objects.filter(tenant_number__in=tenants, start__gte=begin, start__lt=end).order_by()
    found = rows.values_list("tenant_number", "endpoint_number").annotate(
        Max("peak_1s"),
        Max("peak_10s"),
        Max("peak_60s"),
        busiest_hour=Max(F("allowed") + F("denied")),
        asked=Sum(F("allowed") + F("denied")),
        refused=Sum("denied"),
        **{f"most_{window}": Max(Coalesce(f"cost_{window}", f"peak_{window}")) for window in ("1s", "10s", "60s")},
    )
    demands: dict[int, dict[int, PeakDemand]] = {tenant: {} for tenant in tenants}
    for tenant, endpoint, *values in found:
        demands[tenant][endpoint] = PeakDemand(*(int(value or 0) for value in values))
    return demands


def denials_by_limit(tenant: int, begin: datetime, end: datetime) -> dict[tuple[int, int], int]:
    """(endpoint, limit) numbers → requests refused, in the same hours that `demands_read` reads."""
    first = end - (end - BEGINNING) % UsageHour.step
    hours = [first - i * UsageHour.step for i in range((first - begin) // UsageHour.step + 1)]
    rows = UsageHour.objects.filter(start__in=hours, tenant_number=tenant, outcome__in=REFUSED).order_by()
    found = rows.values_list("endpoint_number", "limit_number").annotate(Sum("count"))
    return {(endpoint, limit): int(count) for endpoint, limit, count in found}


def use_of(
    effective: Effective,
    demands: Mapping[int, PeakDemand],
    numbers: Mapping[str, int],
    counters: Mapping[tuple[str, str], int],
) -> LimitUse:
    """`numbers`: endpoint name → number. `counters`: (scope, limit) of a calendar quota → units used."""
    limit, allowance = effective.limit, allowance_of(effective.limit.algorithm)
    if effective.is_global:
        return LimitUse(None, why_not="counted over all tenants")
    demand = demands.get(EVERY_ENDPOINT if effective.scope == EVERYWHERE else numbers.get(effective.scope, 0))
    if isinstance(limit.algorithm, CalendarQuota):
        used = counters.get((effective.scope, limit.name))
        return LimitUse(None if used is None else used / limit.algorithm.limit, used, "nothing used yet")
    if allowance is None:
        is_share = isinstance(limit.algorithm, Borrowing)
        return LimitUse(None, why_not="borrows without a ceiling" if is_share else "concurrency is not measured")
    if limit.subject != Subject():
        return LimitUse(None, why_not=f"counted per {subject_words(limit.subject)}")
    if demand is None:
        return LimitUse(None, why_not="no requests in this period")
    return rate_use(demand, allowance, limit.unit)


def rate_use(demand: PeakDemand, allowance: Allowance, unit: Unit) -> LimitUse:
    # A burst is meant to be used, so the demand is taken over a minute, or over the window if that is longer.
    window_s = max(allowance.window_s, 60.0) if allowance.burst else allowance.window_s
    peak = demand.peak(window_s, unit)
    share = peak / (allowance.per_second * window_s)
    return LimitUse(share, peak * allowance.window_s / window_s)


def counters_read(tenant: int, names: Mapping[int, str], now: datetime) -> dict[tuple[str, str], int]:
    """(scope, limit) → units used of the tenant's calendar quotas in the current periods."""
    rows = CalendarCounter.objects.filter(tenant_number=tenant, subject=b"", expires_at__gt=now)
    found = list(rows.values_list("scope", "limit_number", "used"))
    endpoints = Endpoint.objects.filter(number__in=[int(scope, 36) for scope, *_ in found if scope])
    scopes = {keys.endpoint_number(number): name for number, name in endpoints.values_list("number", "name")}
    scopes[""] = EVERYWHERE
    return {
        (scopes[scope], names[number]): used for scope, number, used in found if scope in scopes and number in names
    }


def period_of(quota: CalendarQuota, zone: str, now: datetime) -> tuple[datetime, datetime]:
    """The current period."""
    now_s = (now - EPOCH) // (SECOND_US * MICROSECOND)
    start, end, *_ = quota.boundaries(zone, now_s, now_s)
    return EPOCH + timedelta(seconds=start), EPOCH + timedelta(seconds=end)


def hours_read(
    tenant: int, begin: datetime, end: datetime, endpoints: Collection[int] = (EVERY_ENDPOINT,)
) -> dict[datetime, int]:
    """Requests in each hour that has any."""
    rows = RatesHour.objects.filter(
        tenant_number=tenant, endpoint_number__in=endpoints, start__gte=begin, start__lt=end
    ).order_by()
    found = rows.values_list("start").annotate(asked=Sum(F("allowed") + F("denied")))
    return {start: int(asked) for start, asked in found}
