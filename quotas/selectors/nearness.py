"""Which tenants have nearly used up a limit, as a job has measured it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from quotas.models.rates import EVERY_ENDPOINT
from quotas.models.tier_use import TierUse

NEAR: Final = 0.8


@dataclass(frozen=True, slots=True)
class Near:
    tenant: str
    tier: str
    scope: str
    limit: str
    share: float  # of what the limit allows; above 1: more was asked for


@dataclass(frozen=True, slots=True)
class Nearness:
    tenants: int  # at 80 % of a limit or above
    rows: Sequence[Near]  # the nearest first
    at: datetime | None  # None: nothing was measured yet


def nearness_read() -> Nearness:
    tiers = list(TierUse.objects.filter(endpoint_number=EVERY_ENDPOINT).defer("leaders"))
    rows = [Near(**near) for tier in tiers for near in tier.nearest]
    at = max((tier.measured_at for tier in tiers), default=None)
    return Nearness(sum(tier.near for tier in tiers), sorted(rows, key=lambda row: -row.share), at)
