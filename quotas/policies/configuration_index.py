"""The configuration as last read, indexed so that the cost of an edit depends on what it touches."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import TypeVar

from headroom_edge.algorithms.base import DAY_US
from headroom_edge.plan.priority import highest
from quotas.policies.layers import Layers, PolicyIndex
from quotas.policies.plans import uses_tenant_zone
from quotas.policies.spec import Canary, Configuration, Endpoint, Override, Policy, Tenant, Tier

Value = TypeVar("Value")

UTC = "UTC"
# How long a plan keeps an override that ended, or a handover, so that state carries over from it.
REMEMBERED_US = 40 * DAY_US


@dataclass(frozen=True, slots=True)
class Touched:
    """What an edit may have changed. `common`: endpoints, global policies or settings, which are in every plan."""

    tenants: Set[str] = frozenset()
    tiers: frozenset[str] = frozenset()
    common: bool = False

    def __or__(self, other: "Touched") -> "Touched":
        return Touched(self.tenants | other.tenants, self.tiers | other.tiers, self.common or other.common)

    def __bool__(self) -> bool:
        return bool(self.tenants or self.tiers or self.common)


@dataclass(slots=True)
class Book:
    month_us: int
    revision: int = 0
    tiers: dict[str, Tier] = field(default_factory=dict)
    tenants: dict[str, Tenant] = field(default_factory=dict)
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    limit_numbers: dict[str, int] = field(default_factory=dict)
    globals: Mapping[str, Policy] = field(default_factory=dict)
    subject_cap: int = 0
    sample_per_1024: int = 0
    usage_room: int = 0
    unknown_tenant: str | None = None
    zoned_tiers: set[str] = field(default_factory=set)  # with calendars in the tenant's own time zone
    _tier_policies: dict[str, Mapping[str, Policy]] = field(default_factory=dict)
    _tenant_policies: dict[str, Mapping[str, Policy]] = field(default_factory=dict)
    _overrides: dict[str, tuple[Override, ...]] = field(default_factory=dict)
    _canaries: dict[str, Canary] = field(default_factory=dict)
    _customised: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _zoned: defaultdict[str, defaultdict[str, set[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )

    def absorb(self, parts: Configuration, touched: Touched) -> None:
        """Replaces what was touched. A touched tenant or tier that is missing from `parts` was deleted."""
        index = PolicyIndex.of_configuration(parts)
        self.revision = parts.revision
        self.limit_numbers |= parts.limit_numbers
        if touched.common:
            self._absorb_common(parts, index)
        for name in touched.tiers:
            _replace(self.tiers, name, parts.tiers.get(name))
            _replace(self._tier_policies, name, index.tiers.get(name))
            _replace(self._canaries, name, index.canaries.get(name))
            self.zoned_tiers.discard(name)
            if uses_tenant_zone((*self.tier_policies(name).values(), *self.tier_policies(name, True).values())):
                self.zoned_tiers.add(name)
        for name in touched.tenants:
            self._absorb_tenant(name, parts.tenants.get(name), index)

    def _absorb_common(self, parts: Configuration, index: PolicyIndex) -> None:
        self.endpoints = parts.endpoints
        self.globals = index.globals
        self.subject_cap = parts.subject_cap
        self.sample_per_1024 = parts.sample_per_1024
        self.usage_room = parts.usage_room
        self.unknown_tenant = parts.unknown_tenant

    def _absorb_tenant(self, name: str, tenant: Tenant | None, index: PolicyIndex) -> None:
        before = self.tenants.get(name)
        if before:
            self._customised[before.tier].discard(name)
            self._zoned[before.tier][before.timezone].discard(name)
        if tenant and tenant.handovers:
            handovers = tuple(h for h in tenant.handovers if h.since_us > self._horizon_us)
            tenant = replace(tenant, handovers=handovers) if handovers != tenant.handovers else tenant
        _replace(self.tenants, name, tenant)
        _replace(self._tenant_policies, name, index.tenants.get(name))
        _replace(self._overrides, name, self._remembered(index.overrides.get(name, ())) or None)
        if tenant and not tenant.suspended:
            self._register(tenant)

    def _register(self, tenant: Tenant) -> None:
        if self.is_customised(tenant):
            self._customised[tenant.tier].add(tenant.name)
        elif tenant.timezone != UTC:
            self._zoned[tenant.tier][tenant.timezone].add(tenant.name)

    def _remembered(self, overrides: tuple[Override, ...]) -> tuple[Override, ...]:
        return tuple(o for o in overrides if o.end_us is None or o.end_us > self._horizon_us)

    def known(self, names: Iterable[str]) -> Iterator[Tenant]:
        return (self.tenants[name] for name in names if name in self.tenants)

    @property
    def _horizon_us(self) -> int:
        return self.month_us - REMEMBERED_US

    def is_customised(self, tenant: Tenant) -> bool:
        name = tenant.name
        own = name in self._tenant_policies or name in self._overrides
        return own or bool(tenant.handovers or tenant.priority)

    def layers(self, tenant: Tenant) -> Layers:
        return Layers(
            self.tier_policies(tenant.tier, self.is_canary(tenant)),
            self._tenant_policies.get(tenant.name, {}),
            tenant.handovers,
            self._overrides.get(tenant.name, ()),
            highest(self.tier_priority(tenant.tier), tenant.priority),
        )

    def tier_priority(self, tier: str) -> str:
        return self.tiers[tier].priority if tier in self.tiers else ""

    def tier_policies(self, tier: str, is_canary: bool = False) -> Mapping[str, Policy]:
        policies, canary = self._tier_policies.get(tier, {}), self._canaries.get(tier)
        return {**policies, **canary.policies} if is_canary and canary else policies

    def canary(self, tier: str) -> Canary | None:
        return self._canaries.get(tier)

    def is_canary(self, tenant: Tenant) -> bool:
        canary = self._canaries.get(tenant.tier)
        return canary is not None and canary.has(tenant.name)

    def moved_by(self, canary: Canary | None, tier: str) -> Iterator[str]:
        """Tenants that entered or left the tier's canary."""
        after = self._canaries.get(tier)
        if (canary and (canary.change, canary.share)) == (after and (after.change, after.share)):
            return
        for name, tenant in self.tenants.items():
            if tenant.tier == tier and (canary is not None and canary.has(name)) != self.is_canary(tenant):
                yield name

    def customised(self, tier: str) -> frozenset[str]:
        return frozenset(self._customised[tier])

    def zones(self, tier: str) -> Iterator[str]:
        """Time zones of the tier's plain tenants, without UTC."""
        return (zone for zone, names in self._zoned[tier].items() if names)

    def zoned(self, tier: str) -> frozenset[str]:
        return frozenset().union(*self._zoned[tier].values())


def _replace(mapping: dict[str, Value], name: str, value: Value | None) -> None:
    if value is None:
        mapping.pop(name, None)
    else:
        mapping[name] = value
