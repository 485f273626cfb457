"""The limits that calibration can size, each with the traffic it counts and the tenants it applies to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from django.db.models import QuerySet

from headroom_edge.algorithms.base import Algorithm
from headroom_edge.plan.subject import TENANT, Subject
from quotas.calibration.sizing import is_sized
from quotas.models import Endpoint, Limit, Policy
from quotas.models.recommendation import Kind
from quotas.policies.endpoint import Hints
from quotas.policies.limit_codec import algorithm_load, row_stored
from quotas.policies.spec import EVERYWHERE
from quotas.usage.queries.demand import TrafficScope
from tenants.models import Tenant

_Owned = Mapping[tuple[int, str], Mapping[str, str]]  # owner and scope → limit → subject
_TENANT = "tenant"
_BY_POOL = "its numbers depend on what its members ask for together; the pool's page proposes all shares at once"
SIZED_ELSEWHERE: Final[Mapping[str, str]] = {
    "pool": _BY_POOL,
    "borrowing": _BY_POOL,
    "adaptive_concurrency": "it follows the latency of its backend by itself, between its bounds",
}


@dataclass(frozen=True, slots=True)
class Sampled:
    """By which subject arrivals are sampled: that of the first record, in the order of quotas.policies.plans."""

    of_tier: _Owned
    of_tenant: _Owned
    tiers: Mapping[int, int]  # tenant → tier, for tenants with limits of their own

    @classmethod
    def read(cls) -> Sampled:
        tiers: dict[tuple[int, str], dict[str, str]] = {}
        tenants: dict[tuple[int, str], dict[str, str]] = {}
        rows = Limit.objects.exclude(mode="off").select_related("name", "policy__endpoint")
        for row in rows:
            owner, found = (row.policy.tier_id, tiers) if row.policy.tier_id else (row.policy.tenant_id, tenants)
            if owner is not None:
                found.setdefault((owner, row.policy.scope), {})[row.name.name] = row.subject
        own = {owner for owner, _ in tenants}
        return cls(tiers, tenants, dict(Tenant.objects.filter(pk__in=own).values_list("pk", "tier_id")))

    def of(self, policy: Policy, subject: str, names: Mapping[int, str]) -> tuple[dict[int, str], str]:
        """The tenants whose arrivals are sampled by this policy's subject; if there are none, also the reason."""
        wanted, scope = (policy.scope, subject), policy.scope
        usual = self._first(self._layers(policy.tier_id, None, scope)) if policy.tier_id else None
        firsts = {
            number: self._first(self._layers(self.tiers[number], number, scope)) if number in self.tiers else usual
            for number in names
        }
        kept = {number: name for number, name in names.items() if firsts[number] == wanted}
        other = next(iter(firsts.values()), None)
        if kept or other is None:
            return kept, ""
        return kept, f"arrivals are sampled by {other[1]} on {other[0]}, so there is no data on this subject"

    def _layers(self, tier: int, tenant: int | None, scope: str) -> Iterable[tuple[str, Mapping[str, str]]]:
        """From the least to the most specific; the last limit of a name applies."""
        for owner, owned in ((tier, self.of_tier), (tenant or 0, self.of_tenant)):
            for place in dict.fromkeys((EVERYWHERE, scope)):
                yield place, owned.get((owner, place), {})

    @staticmethod
    def _first(layers: Iterable[tuple[str, Mapping[str, str]]]) -> tuple[str, str] | None:
        held = {limit: (scope, subject) for scope, limits in layers for limit, subject in limits.items()}
        return min(((s, by) for s, by in held.values() if by != _TENANT), default=None)


@dataclass(frozen=True, slots=True)
class Target:
    policy: str
    limit: str
    kind: Kind
    tier: str  # empty: a tenant's own
    tenant: str  # empty: a tier's
    endpoint: str
    algorithm: Algorithm
    traffic: TrafficScope
    names: Mapping[int, str]  # of the tenants, by number
    hints: Hints
    number: int  # of the limit's name, as in the rollups
    subject: Subject = TENANT
    unsampled: str = ""  # why there is no data on its subjects

    def __str__(self) -> str:
        return f"{self.limit} of {self.policy}"

    def of_one(self, tenant: str) -> Target:
        """The same limit with the traffic of one tenant; without any if the limit does not apply to it."""
        numbers = frozenset(number for number, name in self.names.items() if name == tenant)
        return replace(self, traffic=replace(self.traffic, tenants=numbers))


@dataclass(frozen=True, slots=True)
class Skipped:
    """A limit that is sized in another way."""

    policy: str
    limit: str
    why: str


def candidates(**wanted: Any) -> QuerySet[Limit]:
    """The limits that may be targets, or those of them whose columns have the given values."""
    enforced = Limit.objects.filter(mode="enforce", policy__tenant__archived_at=None, **wanted)
    enforced = enforced.exclude(policy__tier=None, policy__tenant=None)
    return enforced.order_by("policy", "pk")


def targets(**wanted: Any) -> Iterator[Target]:
    """All targets, or those whose columns have the given values."""
    return (one for one in targets_and_skipped(**wanted) if isinstance(one, Target))


def targets_and_skipped(**wanted: Any) -> Iterator[Target | Skipped]:
    """Of all candidates, or of those whose columns have the given values."""
    replaced, sampled = _Replaced.read(), Sampled.read()
    related = ("name", "policy__tier", "policy__tenant__tier", "policy__endpoint")
    for row in candidates(**wanted).select_related(*related):
        if why := SIZED_ELSEWHERE.get(row.algorithm):
            yield Skipped(row.policy.name, row.name.name, why)
        elif (target := _target(row, replaced, sampled)) is not None:
            yield target


def target_of(policy: str, limit: str) -> Target | None:
    return next(targets(policy__name=policy, name__name=limit), None)


@dataclass(frozen=True, slots=True)
class _Replaced:
    """Where a limit of the same name replaces it: on an endpoint of the tier, or for the tenant itself."""

    of_tier: Mapping[tuple[int, str], frozenset[int]]  # tier, limit → endpoints
    of_tenant: Mapping[tuple[int, str], frozenset[int]]

    @classmethod
    def read(cls) -> _Replaced:
        tiers: dict[tuple[int, str], set[int]] = {}
        tenants: dict[tuple[int, str], set[int]] = {}
        columns = ("policy__tier", "policy__tenant", "policy__endpoint", "name__name")
        for tier, tenant, endpoint, name in Limit.objects.exclude(mode="off").values_list(*columns):
            owner, found = (tier, tiers) if tier is not None else (tenant, tenants)
            if owner is not None:
                found.setdefault((owner, name), set()).update({endpoint} if endpoint else ())
        return cls(*({key: frozenset(value) for key, value in found.items()} for found in (tiers, tenants)))


def _target(row: Limit, replaced: _Replaced, sampled: Sampled) -> Target | None:
    algorithm = algorithm_load(row_stored(row))
    if not is_sized(algorithm):
        return None
    policy, name, subject = row.policy, row.name.name, Subject.parse(row.subject)
    owner = (policy.tier_id or policy.tenant_id or 0, name)
    elsewhere = (replaced.of_tier if policy.tier_id else replaced.of_tenant).get(owner, frozenset())
    names, unsampled, endpoint = _names(policy, name, replaced), "", policy.endpoint
    if subject != TENANT:
        names, unsampled = sampled.of(policy, str(subject), names)
    return Target(
        policy=policy.name,
        limit=name,
        kind=Kind.TIER if policy.tier else Kind.TENANT,
        tier=policy.tier.name if policy.tier else "",
        tenant=policy.tenant.name if policy.tenant else "",
        endpoint=policy.scope,
        algorithm=algorithm,
        traffic=TrafficScope(
            tenants=frozenset(names),
            endpoints=frozenset({endpoint.number}) if endpoint else None,
            without=frozenset() if endpoint else elsewhere,
            unit="cost" if row.unit == "cost" else "requests",
        ),
        names=names,
        hints=_hints(endpoint),
        number=row.name_id,
        subject=subject,
        unsampled=unsampled,
    )


def _names(policy: Policy, limit: str, replaced: _Replaced) -> dict[int, str]:
    if policy.tenant is not None:
        return {policy.tenant.number: policy.tenant.name}
    rows = present().filter(tier=policy.tier_id).values_list("number", "name")
    return {number: name for number, name in rows if (number, limit) not in replaced.of_tenant}


def present() -> QuerySet[Tenant]:
    """Tenants whose requests are limited: the others get a 403."""
    return Tenant.objects.filter(suspended=False, archived_at=None)


def _hints(endpoint: Endpoint | None) -> Hints:
    return Hints(**endpoint.hints) if endpoint else Hints()
