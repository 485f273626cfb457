"""Questions about limits that adapt: their present values, their timelines, and which are at their floors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Final, NamedTuple

from django.db.models import F, Max, Min, Q, QuerySet

from quotas.adaptive.limits import MOST_LIMITS, PINNED
from quotas.models import AdaptiveReading, Endpoint, Limit, Policy
from quotas.models.adaptive import RATE
from quotas.policies.adapt import Adapt, percent, percent_words
from tenants.models import Tenant

FRESH: Final = timedelta(minutes=2)  # an older reading says nothing of the present
SHOWN: Final = timedelta(hours=6)
UNPINNED: Final = "unpinned a moment ago, so it adapts again; its value is read anew within seconds"


SERIES: Final = ("policy", "limit_name", "tenant_number")


class Series(NamedTuple):
    """One counter of a limit: fields of a reading."""

    policy: str
    limit: str
    tenant_number: int


@dataclass(frozen=True, slots=True)
class AdaptiveLimit:
    """A limit that adapts, as it was read last."""

    policy: str
    limit: str
    endpoint: str  # `*`: every endpoint; `billing:*`: every one of a service
    tenant: str  # whose counter it is; empty: all together
    kind: str
    value: int
    least: int
    most: int
    reason: str
    at: datetime
    pin: int | None = None
    tenant_number: int = 0

    @property
    def series(self) -> Series:
        return Series(self.policy, self.limit, self.tenant_number)

    @property
    def is_at_floor(self) -> bool:
        return self.value <= self.least < self.most

    @property
    def is_rate(self) -> bool:
        return self.kind == RATE

    @property
    def is_pinned(self) -> bool:
        return self.pin is not None

    @property
    def value_words(self) -> str:
        """`42 %`, or `18 at once`."""
        return self.words_of(self.value)

    @property
    def share(self) -> str:
        """Of a rate, as `limit_pin` takes it: `42%`."""
        return percent(self.value)

    @property
    def bounds_words(self) -> str:
        """`from 30 % to 100 %`, or `from 4 to 64`."""
        least = self.words_of(self.least) if self.is_rate else f"{self.least:,}"
        most = self.words_of(self.most) if self.is_rate else f"{self.most:,}"
        return f"from {least} to {most}"

    def words_of(self, value: int) -> str:
        return percent_words(value) if self.is_rate else f"{value:,} at once"

    @property
    def key(self) -> str:
        """Names it in a page."""
        return "-".join((self.policy, self.limit, self.tenant or "all")).replace(".", "_")


@dataclass(frozen=True, slots=True)
class AdaptivePoint:
    at: datetime
    value: int
    least: int
    most: int
    reason: str


def adaptive_limits(
    now: datetime, *, endpoint: Endpoint | None = None, tenant: Tenant | None = None
) -> list[AdaptiveLimit]:
    """Those with a fresh reading. `endpoint`: on this one, on its service, or on every endpoint.

    `tenant`: limits of the tenant, its tier and everyone, with the counters that it has or shares.
    """
    found = AdaptiveReading.objects.filter(at__gt=now - FRESH)
    if endpoint is not None:
        elsewhere = Policy.objects.exclude(service__in=("", endpoint.name.partition(":")[0])).values("name")
        found = found.filter(endpoint_number__in=(0, endpoint.number)).exclude(policy__in=elsewhere)
    if tenant is not None:
        applies = Q(tenant=tenant) | Q(tier_id=tenant.tier_id) | Q(tier=None, tenant=None)
        policies = Policy.objects.filter(applies).values("name")
        found = found.filter(tenant_number__in=(0, tenant.number), policy__in=policies)
    return _named(list(found.order_by(*SERIES, "-at").distinct(*SERIES)[:MOST_LIMITS]))


def _named(rows: Sequence[AdaptiveReading]) -> list[AdaptiveLimit]:
    """Without those whose limit is gone."""
    if not rows:
        return []
    limits = Limit.objects.filter(policy__name__in={row.policy for row in rows})
    found = {(each.policy.name, each.name.name): each for each in limits.select_related("policy__endpoint", "name")}
    tenants = dict(Tenant.objects.filter(number__in={r.tenant_number for r in rows}).values_list("number", "name"))
    named = ((row, found.get((row.policy, row.limit_name))) for row in rows)
    return [_limit(row, limit, tenants) for row, limit in named if limit is not None]


def _limit(row: AdaptiveReading, limit: Limit, tenants: dict[int, str]) -> AdaptiveLimit:
    pin = Adapt.parse(limit.adapt).pin if limit.adapt else None
    return AdaptiveLimit(
        row.policy,
        row.limit_name,
        limit.policy.scope,
        tenants.get(row.tenant_number, ""),
        row.kind,
        row.value if pin is None else pin,
        row.least,
        row.most,
        _reason(row, pin),
        row.at,
        pin,
        row.tenant_number,
    )


def _reason(row: AdaptiveReading, pin: int | None) -> str:
    """A reading may be older than the last pin. Whether a limit is pinned is what its configuration says."""
    if pin is not None:
        return PINNED
    return UNPINNED if row.reason == PINNED else row.reason


def adaptive_timeline(policy: str, limit: str, start: datetime, end: datetime, tenant: int = 0) -> list[AdaptivePoint]:
    """Oldest first. A value holds until the next point, which is at most about a minute later."""
    rows = AdaptiveReading.objects.filter(
        policy=policy, limit_name=limit, tenant_number=tenant, at__gte=start, at__lte=end
    ).order_by("at")
    return [AdaptivePoint(row.at, row.value, row.least, row.most, row.reason) for row in rows]


@dataclass(frozen=True, slots=True)
class AtFloor:
    limit: AdaptiveLimit
    since: datetime


def limits_at_floor(now: datetime, for_at_least: timedelta, most: int = MOST_LIMITS) -> list[AtFloor]:
    """Limits that have been at their floor for that long without a break; pinned ones are where somebody wants them."""
    low = [each for each in adaptive_limits(now) if each.is_at_floor and not each.is_pinned]
    left = _last_above(AdaptiveReading.objects.filter(at__gt=now - for_at_least, at__lte=now)) if low else {}
    steady = [each for each in low if each.series not in left][:most]
    since = _low_since([each.series for each in steady], now)
    found = [AtFloor(each, since[each.series]) for each in steady if each.series in since]
    return [each for each in found if now - each.since >= for_at_least]


def _low_since(wanted: Sequence[Series], now: datetime) -> dict[Series, datetime]:
    """Of each, the first reading at the floor after the newest one that was not."""
    if not wanted:
        return {}
    rows = AdaptiveReading.objects.filter(at__lte=now)
    broken = _last_above(rows.filter(reduce(or_, (_of(each) for each in wanted))))
    low = (_of(each) & (Q(at__gt=broken[each]) if each in broken else Q()) for each in wanted)
    found = rows.filter(reduce(or_, low)).order_by().values_list(*SERIES).annotate(Min("at"))
    return {Series(*each): at for *each, at in found}


def _last_above(rows: QuerySet[AdaptiveReading]) -> dict[Series, datetime]:
    """When each was above its floor for the last time."""
    above = rows.filter(Q(value__gt=F("least")) | Q(least__gte=F("most")))
    return {Series(*each): at for *each, at in above.order_by().values_list(*SERIES).annotate(Max("at"))}


def _of(series: Series) -> Q:
    return Q(**dict(zip(SERIES, series, strict=True)))
