"""Those whose limits an edit may break or cut, loaded as the edit leaves them."""

from __future__ import annotations

from dataclasses import dataclass

from quotas.policies.configuration import configuration_part, tenants_with_own_limits
from quotas.policies.spec import Configuration
from quotas.services.earlier import States
from quotas.services.snapshots import TENANT, split_key
from quotas.services.targets import Targets
from tenants.models import Tier


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
