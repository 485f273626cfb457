"""The busiest tenants of a tier on an endpoint over 28 days, and what a limit would have denied them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from headroom_edge.observations import ENDS
from quotas.models.usage_totals import TierUse

LEADERS: Final = 40
WINDOW_S: Final = 60


@dataclass(frozen=True, slots=True)
class BusyTenant:
    tenant: str
    in_1s: int  # the most requests in a second
    in_60s: int  # the most requests in a minute
    p98: int  # 98 % of its requests came in minutes with at most this many
    asked: int
    denied: int
    buckets: list[int]  # histogram of its minutes (headroom_edge.observations)
    counts: list[int]

    @property
    def rate(self) -> float:
        """p98 as requests per second."""
        return self.p98 / WINDOW_S

    @property
    def peak(self) -> float:
        """The busiest minute as requests per second."""
        return self.in_60s / WINDOW_S

    def above(self, rate: float, burst: float) -> float:
        """Requests that a limit would have denied, if the burst is available once in each busy minute."""
        sizes = np.minimum(np.array(ENDS, np.float64)[self.buckets], float(self.in_60s))
        over = np.maximum(sizes - rate * WINDOW_S - burst, 0.0)
        return float((over * np.array(self.counts, np.float64)).sum())


@dataclass(frozen=True, slots=True)
class DeniedTenant:
    leader: BusyTenant
    denied: float

    @property
    def share(self) -> float:
        return min(self.denied / self.leader.asked, 1.0) if self.leader.asked else 0.0


@dataclass(frozen=True, slots=True)
class BusiestTenants:
    """`tenants` and `asked` include the tenants that are not listed."""

    leaders: Sequence[BusyTenant]
    tenants: int
    asked: int
    at: datetime

    @property
    def is_whole(self) -> bool:
        return len(self.leaders) == self.tenants

    @property
    def lowest(self) -> float:
        """The lowest rate for which the list is complete: a lower limit would also deny tenants not listed."""
        return 0.0 if self.is_whole else self.leaders[-1].peak

    def denied_tenants(self, rate: float, burst: float) -> list[DeniedTenant]:
        """The tenants to which the limit would deny anything, the most denied first."""
        found = (DeniedTenant(leader, leader.above(rate, burst)) for leader in self.leaders)
        return sorted((one for one in found if one.denied >= 0.5), key=lambda one: -one.denied)


def busiest_tenants_read(tier: int, endpoint: int) -> BusiestTenants | None:
    """None: nothing was measured."""
    row = TierUse.objects.filter(tier_number=tier, endpoint_number=endpoint, leaders_at__isnull=False).first()
    if row is None or row.leaders_at is None or not row.leaders:
        return None
    return BusiestTenants(
        [BusyTenant(**one) for one in row.leaders], row.leaders_tenants, row.leaders_asked, row.leaders_at
    )
