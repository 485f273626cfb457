"""Comparison of a tenant with another tenant or a tier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dashboards.pages.tenant.limits import TenantLimit
from quotas.models import Endpoint
from quotas.policies.explain import standing, standing_of_tier
from quotas.policies.limit_words import limit_short
from quotas.policies.resolve import Effective
from quotas.usage.queries.utilisation import LimitUse, demands_read, use_of
from tenants.models import Tenant, Tier

LimitPlace = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Comparison:
    name: str = ""  # empty: no comparison
    problem: str = ""
    limits: Mapping[LimitPlace, Effective] = field(default_factory=dict)
    uses: Mapping[LimitPlace, LimitUse] = field(default_factory=dict)

    def beside(self, lines: Sequence[TenantLimit]) -> list[TenantLimit]:
        return [self._beside(line) for line in lines] if self.name else list(lines)

    def _beside(self, line: TenantLimit) -> TenantLimit:
        place = (line.scope, line.limit.name)
        effective = self.limits.get(place)
        short = limit_short(effective.limit.algorithm) if effective else None
        return replace(line, other=short, other_use=self.uses.get(place))


def comparison_of(tenant: Tenant, name: str, now: datetime) -> Comparison:
    """Compares with the tier or tenant of that name."""
    name = name.strip().lower()
    if not name:
        return Comparison()
    if Tier.objects.filter(name=name, retired=False).exists():
        return Comparison(name, limits=_by_place(standing_of_tier(name)))
    other = Tenant.objects.filter(name=name).exclude(pk=tenant.pk).first()
    if other is None:
        return Comparison(problem=f"No other tenant or tier is called {name}.")
    limits = _by_place(each.effective for each in standing(tenant=name).limits)
    numbers = dict(Endpoint.objects.filter(retired=False).values_list("name", "number"))
    demands = demands_read(other.number, now - timedelta(days=1), now)
    return Comparison(name, "", limits, {at: use_of(each, demands, numbers, {}) for at, each in limits.items()})


def _by_place(found: Iterable[Effective]) -> dict[LimitPlace, Effective]:
    return {(each.scope, each.limit.name): each for each in found}
