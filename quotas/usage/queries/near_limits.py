"""How close tenants came to their limits in the last day, as quotas.usage.tier_usage measured it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from headroom_edge.algorithms.calendar_quota import CalendarQuota
from headroom_edge.plan.subject import Subject
from quotas.models import Endpoint, LimitName
from quotas.models.usage_rates import EVERY_ENDPOINT
from quotas.models.usage_totals import TierUse
from quotas.policies.allowance import allowance_of
from quotas.policies.spec import EVERYWHERE, Limit
from quotas.usage.queries.utilisation import PeakDemand, rate_use

NEAR: Final = 0.8


@dataclass(frozen=True, slots=True)
class NearLimit:
    tenant: str
    tier: str
    scope: str
    limit: str
    share: float  # of what the limit allows; above 1: the demand exceeded it


@dataclass(frozen=True, slots=True)
class NearLimits:
    tenants: int  # at 80 % of a limit or above
    rows: Sequence[NearLimit]  # the nearest first
    at: datetime | None  # None: nothing was measured yet


def near_limits_read() -> NearLimits:
    tiers = list(TierUse.objects.filter(endpoint_number=EVERY_ENDPOINT).defer("leaders"))
    rows = [NearLimit(**near) for tier in tiers for near in tier.nearest]
    at = max((tier.measured_at for tier in tiers), default=None)
    return NearLimits(sum(tier.near for tier in tiers), sorted(rows, key=lambda row: -row.share), at)


@dataclass(frozen=True, slots=True)
class NearestTenant:
    """`share` of the limit, above 1 if the demand exceeded it; `tenant`: whose it was, empty if that is not known."""

    share: float
    tenant: str


@dataclass(frozen=True, slots=True)
class RequestCounts:
    asked: int
    denied: int

    @property
    def share(self) -> float:
        return self.denied / self.asked if self.asked else 0.0


@dataclass(frozen=True, slots=True)
class TierUsage:
    rows: Mapping[tuple[int, int], TierUse]  # by tier and endpoint
    endpoints: Mapping[str, int]
    limits: Mapping[str, int]

    @property
    def is_measured(self) -> bool:
        return bool(self.rows)

    @property
    def at(self) -> datetime | None:
        return max((row.measured_at for row in self.rows.values()), default=None)

    def active(self, tier: int) -> int:
        """Tenants with requests in the last day."""
        row = self.rows.get((tier, EVERY_ENDPOINT))
        return row.tenants if row else 0

    def asked(self, tier: int, scope: str) -> RequestCounts | None:
        row = self._row(tier, scope)
        return RequestCounts(row.asked, row.denied) if row else None

    def refused(self, tier: int, scope: str, limits: Mapping[str, Collection[str]]) -> RequestCounts | None:
        """Requests refused by these limits; `limits`: name → endpoints that have their own limit of that name."""
        row = self._row(tier, scope)
        if row is None:
            return None
        rows = [each for (of, _), each in self.rows.items() if of == tier] if scope == EVERYWHERE else [row]
        return RequestCounts(row.asked, sum(self._refused_by(name, rows, apart) for name, apart in limits.items()))

    def _refused_by(self, limit: str, rows: Iterable[TierUse], apart: Collection[str]) -> int:
        number, others = str(self.limits.get(limit)), {self.endpoints.get(name) for name in apart}
        return sum(row.denied_by.get(number, 0) for row in rows if row.endpoint_number not in others)

    def nearest(self, tier: int, scope: str, limit: Limit) -> NearestTenant | None:
        """None: there were no requests, or what the limit counts is not measured."""
        row = self._row(tier, scope)
        if row is None or limit.subject != Subject() or limit.mode == "off":
            return None
        name = self._at_peak(tier, scope, limit.name)
        if isinstance(limit.algorithm, CalendarQuota):
            used = row.calendar.get(str(self.limits.get(limit.name)))
            return None if used is None else NearestTenant(used / limit.algorithm.limit, name)
        allowance = allowance_of(limit.algorithm)
        share = rate_use(PeakDemand(**row.peaks), allowance, limit.unit).share if allowance else None
        return None if share is None else NearestTenant(share, name)

    def _at_peak(self, tier: int, scope: str, limit: str) -> str:
        """Peaks are kept by tier; only of those that came nearest to a limit it is known whose they were."""
        row = self.rows.get((tier, EVERY_ENDPOINT))
        known = [near for near in row.nearest if (near["scope"], near["limit"]) == (scope, limit)] if row else []
        return str(max(known, key=lambda near: near["share"])["tenant"]) if known else ""

    def _row(self, tier: int, scope: str) -> TierUse | None:
        return self.rows.get((tier, EVERY_ENDPOINT if scope == EVERYWHERE else self.endpoints.get(scope, 0)))


def tier_usage_read() -> TierUsage:
    rows = {(row.tier_number, row.endpoint_number): row for row in TierUse.objects.defer("leaders")}
    return TierUsage(
        rows,
        dict(Endpoint.objects.filter(retired=False).values_list("name", "number")),
        dict(LimitName.objects.values_list("name", "number")),
    )
