"""Whom a change affects: the plans it concerns, and the tenants whose limits it may break or cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quotas.changes.snapshot import CHANGE, ENDPOINT, OVERRIDE, POLICY, TENANT, TIER, State, States, key_of, split_key
from quotas.policies.configuration import configuration_part, tenants_with_own_limits
from quotas.policies.spec import Configuration
from tenants.models import Tier

# Past this many names, reading everything is quicker for the publisher than reading them one by one.
MOST_NAMES = 5_000


@dataclass(frozen=True, slots=True)
class Targets:
    tenants: frozenset[str]
    newcomers: frozenset[str]  # tenants that have just been created, and have what their tier has
    tiers: frozenset[str]
    is_common: bool  # endpoints or global limits, which every plan holds

    @classmethod
    def of(cls, touched: Iterable[str], before: Mapping[str, State], after: Mapping[str, State]) -> Targets:
        found = {target for key in touched for state in (before[key], after[key]) for target in _targets(key, state)}
        tenants, tiers = (frozenset(name for k, name in found if k == kind) for kind in (TENANT, TIER))
        newcomers = frozenset(name for name in tenants if before.get(key_of(TENANT, name), {}) is None)
        return cls(tenants, newcomers, tiers, any(kind == ENDPOINT for kind, _ in found))

    def texts(self) -> list[str]:
        """As the outbox has them."""
        if len(self.tenants) + len(self.tiers) > MOST_NAMES:
            return ["everything"]
        common = ["common"] if self.is_common else []
        tiers = [key_of(TIER, name) for name in sorted(self.tiers)]
        return common + tiers + [key_of(TENANT, name) for name in sorted(self.tenants)]


def _targets(key: str, state: State) -> list[tuple[str, str]]:
    kind, name = split_key(key)
    if kind in (TENANT, TIER):
        return [(kind, name)]
    if kind == ENDPOINT:
        return [(ENDPOINT, "")]
    if state is None:
        return []
    if kind == CHANGE:
        return [(TIER, tier) for tier in state.get("tiers", ())]
    if kind == OVERRIDE or state["tenant"]:
        return [(TENANT, state["tenant"])]
    return [(TIER, state["tier"])] if kind == POLICY and state["tier"] else [(ENDPOINT, "")]


@dataclass(frozen=True, slots=True)
class Concerned:
    """A tier's plain tenants all have its plan, so they need not be loaded: the others are few."""

    targets: Targets
    tiers: frozenset[str]
    tenants: frozenset[str]
    configuration: Configuration  # times are the numbers of revisions

    @classmethod
    def load(cls, targets: Targets, before: States) -> Concerned:
        every = Tier.objects.values_list("name", flat=True) if targets.is_common else targets.tiers
        tiers = frozenset(every)
        tenants = (targets.tenants - targets.newcomers) | tenants_with_own_limits(tiers=tiers)
        left = {state["tier"] for key, state in before.items() if state and split_key(key)[0] == TENANT}
        part = configuration_part(tenants=tenants, tiers=tiers | left, in_revisions=True)
        return cls(targets, tiers, tenants, part)
