"""Whose arrivals are kept: of each request those of one subject, that of the first record which counts one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quotas.models import Limit, Policy
from quotas.policies.spec import EVERYWHERE
from tenants.models import Tenant

_Owned = Mapping[tuple[int, str], Mapping[str, str]]  # owner and scope → limit → subject
_TENANT = "tenant"


@dataclass(frozen=True, slots=True)
class Sampled:
    """As the compiler orders records: by scope, `*` first, then by subject (quotas.policies.plans)."""

    of_tier: _Owned
    of_tenant: _Owned
    tiers: Mapping[int, int]  # of tenants that have limits of their own

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
        """Those of the tenants for which it is this policy's subject; and why it is not, if it is for none."""
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
        return kept, f"arrivals are sampled by {other[1]} on {other[0]} here: nothing is known of this subject"

    def _layers(self, tier: int, tenant: int | None, scope: str) -> Iterable[tuple[str, Mapping[str, str]]]:
        """From the least specific to the most; of the same name the last one holds."""
        for owner, owned in ((tier, self.of_tier), (tenant or 0, self.of_tenant)):
            for place in dict.fromkeys((EVERYWHERE, scope)):
                yield place, owned.get((owner, place), {})

    @staticmethod
    def _first(layers: Iterable[tuple[str, Mapping[str, str]]]) -> tuple[str, str] | None:
        held = {limit: (scope, subject) for scope, limits in layers for limit, subject in limits.items()}
        return min(((s, by) for s, by in held.values() if by != _TENANT), default=None)
