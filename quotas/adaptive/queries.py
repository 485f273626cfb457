"""Questions about limits that adapt: their present values, their timelines, and which are at their floors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import F, Q

from quotas.adaptive.limits import MOST_LIMITS, PINNED
from quotas.models import AdaptiveReading, Endpoint, Limit, Policy
from quotas.models.adaptive import RATE
from quotas.policies.adapt import Adapt, percent, percent_words
from tenants.models import Tenant

FRESH: Final = timedelta(minutes=2)  # an older reading says nothing of the present
SHOWN: Final = timedelta(hours=6)
UNPINNED: Final = "unpinned a moment ago, so it adapts again; its value is read anew within seconds"


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
    @property
    def share(self) -> str:
        """Of a rate, as `limit_pin` takes it: `42%`."""
        return percent(self.value)

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
    series = ("policy", "limit_name", "tenant_number")
    return _named(list(found.order_by(*series, "-at").distinct(*series)[:MOST_LIMITS]))


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


def limits_at_floor(now: datetime, for_at_least: timedelta) -> list[AtFloor]:
    """Limits that have been at their floor for that long without a break; pinned ones are where somebody wants them."""
    low = [each for each in adaptive_limits(now) if each.is_at_floor and not each.is_pinned]
    found = [AtFloor(each, since) for each in low if (since := _low_since(each, now)) is not None]
    return [each for each in found if now - each.since >= for_at_least]


def _low_since(limit: AdaptiveLimit, now: datetime) -> datetime | None:
    """The first reading at the floor after the newest one that was not."""
    rows = AdaptiveReading.objects.filter(
        policy=limit.policy, limit_name=limit.limit, tenant_number=limit.tenant_number, at__lte=now
    )
    above = rows.filter(Q(value__gt=F("least")) | Q(least__gte=F("most")))
    broken = above.order_by("-at").values_list("at", flat=True).first()
    low = rows if broken is None else rows.filter(at__gt=broken)
    return low.order_by("at").values_list("at", flat=True).first()
