"""The policies and overrides that can give a tenant its limits; `resolve` says which of them hold."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headroom_edge.plan.priority import highest
from quotas.policies.spec import EVERYWHERE, Canary, Configuration, Handover, Limit, Override, Policy, Tenant


@dataclass(frozen=True, slots=True)
class LadderLimit:
    """A limit of the ladder, with its policy."""

    policy: Policy
    limit: Limit


@dataclass(frozen=True, slots=True)
class Layers:
    """All that can give one tenant its limits. With `tier` alone: those of a tenant without anything of its own."""

    tier: Mapping[str, Policy]  # by endpoint
    tenant: Mapping[str, Policy] = field(default_factory=dict)
    handovers: tuple[Handover, ...] = ()
    overrides: tuple[Override, ...] = ()
    highest: str = ""  # the highest priority of requests; empty: the endpoint's

    @property
    def is_plain(self) -> bool:
        return not (self.tenant or self.handovers or self.overrides)

    def ladder(self, endpoint: str, name: str) -> tuple[LadderLimit, ...]:
        """Every policy that gives the endpoint a limit of that name; the first wins."""
        scopes = (endpoint,) if endpoint == EVERYWHERE else (endpoint, EVERYWHERE)
        found = (by_scope.get(scope) for by_scope in (self.tenant, self.tier) for scope in scopes)
        rungs = ((policy, policy.limit(name)) for policy in found if policy)
        return tuple(LadderLimit(policy, limit) for policy, limit in rungs if limit)

    def endpoints(self) -> frozenset[str]:
        """The endpoints that a policy or an override names, and `*`."""
        return frozenset({EVERYWHERE, *self.tier, *self.tenant, *(o.endpoint for o in self.overrides)})

    def names(self, scope: str) -> list[str]:
        policies = (by_scope.get(scope) for by_scope in (self.tenant, self.tier))
        named = [limit.name for policy in policies if policy for limit in policy.limits]
        named += [name for o in self.overrides if o.endpoint == scope for name in o.limits]
        return sorted(set(named))


@dataclass(frozen=True, slots=True)
class PolicyIndex:
    """A configuration's policies and overrides by their owner."""

    tiers: Mapping[str, Mapping[str, Policy]]
    tenants: Mapping[str, Mapping[str, Policy]]
    globals: Mapping[str, Policy]
    overrides: Mapping[str, tuple[Override, ...]]
    canaries: Mapping[str, Canary] = field(default_factory=dict)  # by tier
    priorities: Mapping[str, str] = field(default_factory=dict)  # by tier

    @classmethod
    def of(
        cls,
        policies: Iterable[Policy],
        overrides: Iterable[Override],
        canaries: Iterable[Canary] = (),
        priorities: Mapping[str, str] | None = None,
    ) -> "PolicyIndex":
        tiers: dict[str, dict[str, Policy]] = defaultdict(dict)
        tenants: dict[str, dict[str, Policy]] = defaultdict(dict)
        everyone: dict[str, Policy] = {}
        for policy in policies:
            if policy.tier is not None:
                tiers[policy.tier][policy.endpoint] = policy
            elif policy.tenant is not None:
                tenants[policy.tenant][policy.endpoint] = policy
            else:
                everyone[policy.endpoint] = policy
        by_tenant: dict[str, tuple[Override, ...]] = {}
        for override in sorted(overrides, key=lambda o: o.id):
            by_tenant[override.tenant] = (*by_tenant.get(override.tenant, ()), override)
        by_tier = {canary.tier: canary for canary in canaries}
        return cls(dict(tiers), dict(tenants), everyone, by_tenant, by_tier, priorities or {})

    @classmethod
    def of_configuration(cls, configuration: Configuration) -> "PolicyIndex":
        priorities = {tier.name: tier.priority for tier in configuration.tiers.values()}
        return cls.of(configuration.policies, configuration.overrides, configuration.canaries, priorities)

    def of_tier(self, tier: str, *, is_canary: bool = False) -> Layers:
        policies, canary = self.tiers.get(tier, {}), self.canaries.get(tier)
        tried = {**policies, **canary.policies} if is_canary and canary else policies
        return Layers(tried, highest=self.priorities.get(tier, ""))

    def is_canary(self, tenant: str, tier: str) -> bool:
        canary = self.canaries.get(tier)
        return canary is not None and canary.has(tenant)

    def of_tenant(self, tenant: Tenant) -> Layers:
        tier = self.of_tier(tenant.tier, is_canary=self.is_canary(tenant.name, tenant.tier))
        return Layers(
            tier.tier,
            self.tenants.get(tenant.name, {}),
            tenant.handovers,
            self.overrides.get(tenant.name, ()),
            highest(tier.highest, tenant.priority),
        )
