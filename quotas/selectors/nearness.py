"""Which limits of the tiers are nearly used up, by whoever asks most of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from quotas.policy.spec import Limit
from quotas.selectors.matrix import EVERYONE, matrix_read
from quotas.selectors.tier_use import measured_read

NEAR: Final = 0.8


@dataclass(frozen=True, slots=True)
class Near:
    tenant: str  # of the tier, the one with the highest peak
    tier: str
    scope: str
    limit: Limit
    share: float  # of what the tier's limit allows; above 1: more was asked for


@dataclass(frozen=True, slots=True)
class Nearness:
    rows: Sequence[Near]  # the nearest first
    at: datetime | None  # None: nothing was measured yet

    @property
    def tenants(self) -> int:
        """At 80 % of a limit or above."""
        return len({row.tenant for row in self.rows if row.share >= NEAR})


def nearness_read(now: datetime) -> Nearness:
    matrix, measured = matrix_read(now), measured_read()
    numbers = {column.tier: column.number for column in matrix.columns}
    found = [
        Near(nearest.tenant, cell.tier, cell.scope, one.limit, nearest.share)
        for line in matrix.lines
        for cell in line.cells
        if cell.tier != EVERYONE
        for one in cell.limits
        if (nearest := measured.nearest(numbers[cell.tier], cell.scope, one.limit)) is not None and nearest.tenant
    ]
    return Nearness(sorted(found, key=lambda row: -row.share), measured.at)
