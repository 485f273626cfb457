"""Measures how close every tenant came to each of its limits in the last day, including overrides and trials."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nlargest
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from headroom_edge.keys import endpoint_number
from quotas.models import Endpoint, LimitName
from quotas.models.calendar_counter import CalendarCounter
from quotas.policies.configuration import configuration_part, tenants_with_own_limits
from quotas.policies.layers import Layers, PolicyIndex
from quotas.policies.resolve import Effective, resolve
from quotas.policies.spec import EVERYWHERE, to_us
from quotas.tenant_summary import TightestLimit
from quotas.usage.queries.ended_days import DailyQuota, Uses, daily_quotas, ended_days_read, most_used
from quotas.usage.queries.near_limits import NEAR, NearLimit
from quotas.usage.queries.utilisation import PeakDemand, use_of
from tenants.models import Tenant, Tier

MOST: Final = 10  # tenants of each tier that a page names


@dataclass(slots=True)
class TierNearLimits:
    tenants: int = 0
    nearest: list[NearLimit] = field(default_factory=list)

    def add(self, found: Iterable[NearLimit]) -> None:
        """Adds the limits of one tenant."""
        rows = list(found)
        self.tenants += any(row.share >= NEAR for row in rows)
        self.nearest = nlargest(MOST, [*self.nearest, *rows], key=attrgetter("share"))


@dataclass(slots=True)
class NearLimitsFound:
    tiers: dict[int, TierNearLimits] = field(default_factory=lambda: defaultdict(TierNearLimits))
    tightest: list[TightestLimit] = field(default_factory=list)  # one of each tenant that has any
    ended: Mapping[int, Uses] = field(default_factory=dict)  # by tenant: what it used of daily quotas on the day before


def measure_near_limits(rows: Iterable[tuple[Any, ...]], now: datetime) -> NearLimitsFound:
    """`rows`: tenant number and name, tier, endpoint, the fields of PeakDemand; grouped by tenant."""
    limits, used = _Limits(now), _calendars(now)
    numbers = dict(Endpoint.objects.filter(retired=False).values_list("name", "number"))
    ended = ended_days_read(limits.daily(now), numbers)
    found = NearLimitsFound(ended=ended)
    for (number, name, tier), own in groupby(rows, key=lambda row: row[:3]):
        demands = {endpoint: PeakDemand(*map(int, peaks)) for _, _, _, endpoint, *peaks in own}
        title, counters = limits.tiers[tier], most_used(used.get(number, {}), ended.get(number, {}))
        uses = ((each, use_of(each, demands, numbers, counters).share) for each in limits.of(name, title))
        near = [NearLimit(name, title, each.scope, each.limit.name, share) for each, share in uses if share]
        found.tiers[tier].add(near)
        if near:
            most = max(near, key=attrgetter("share"))
            found.tightest.append(TightestLimit(number, most.share, most.scope, most.limit))
    return found


class _Limits:
    """The limits of any tenant. Most tenants have just those of their tier, which are resolved once."""

    def __init__(self, now: datetime) -> None:
        self.tiers = dict(Tier.objects.values_list("number", "name"))
        own = tenants_with_own_limits(tiers=self.tiers.values())
        part = configuration_part(tenants=own, tiers=self.tiers.values())
        self._index, self._own, self._at_us = PolicyIndex.of_configuration(part), part.tenants, to_us(now)
        self._plain: dict[tuple[str, bool], tuple[Effective, ...]] = {}

    def of(self, tenant: str, tier: str) -> tuple[Effective, ...]:
        if tenant in self._own:
            return self._resolved(self._index.of_tenant(self._own[tenant]))
        key = (tier, self._index.is_canary(tenant, tier))
        if key not in self._plain:
            self._plain[key] = self._resolved(self._index.of_tier(tier, is_canary=key[1]))
        return self._plain[key]

    def daily(self, now: datetime) -> Iterator[DailyQuota]:
        """The daily quotas of all tenants."""
        rows = Tenant.objects.filter(archived_at=None).values_list("number", "name", "tier_id", "timezone")
        for number, name, tier, zone in rows.iterator():
            yield from daily_quotas(number, zone, self.of(name, self.tiers[tier]), now)

    def _resolved(self, layers: Layers) -> tuple[Effective, ...]:
        found = resolve(layers, self._at_us)
        every = (*found.everywhere, *(each for limits in found.own.values() for each in limits))
        return tuple(each for each in every if each.limit.mode != "off")


def _calendars(now: datetime) -> dict[int, Uses]:
    """Tenant number → units used of its calendar quotas in the current periods."""
    limits = dict(LimitName.objects.values_list("number", "name"))
    scopes = {endpoint_number(number): name for number, name in Endpoint.objects.values_list("number", "name")}
    found: dict[int, Uses] = defaultdict(dict)
    rows = CalendarCounter.objects.filter(subject=b"", expires_at__gt=now, tenant_number__gt=0).order_by()
    for tenant, scope, limit, used in rows.values_list("tenant_number", "scope", "limit_number", "used").iterator():
        if limit in limits:
            found[tenant][scopes.get(scope, EVERYWHERE), limits[limit]] = used
    return found
