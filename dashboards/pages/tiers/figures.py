"""What a tier promises and what its tenants use, from the matrix and the measured traffic of the last day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Q
from django.utils import timezone

from dashboards.pages.endpoint.limit_line import holding_of
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from headroom_edge.keys import OWN_TENANT
from quotas.matrix.queries import EVERYONE, Cell, Matrix, MatrixLimit, matrix_read
from quotas.models.usage_rates import EVERY_ENDPOINT
from quotas.policies.limit_words import Short, algorithm_words, limit_short
from quotas.policies.spec import EVERYWHERE
from quotas.usage.queries.near_limits import NearestTenant, RequestCounts, TierUsage, tier_usage_read
from tenants.models import Tier


@dataclass(frozen=True, slots=True)
class TierLimit:
    scope: str
    one: MatrixLimit
    use: NearestTenant | None

    @property
    def short(self) -> Short:
        return limit_short(self.one.limit.algorithm)

    @property
    def kind(self) -> str:
        return algorithm_words(self.one.limit.algorithm.name)


@dataclass(frozen=True, slots=True)
class TierFigures:
    tier: Tier
    tenants: int  # without archived ones
    archived: int
    limits: Sequence[TierLimit]
    quota: str  # the calendar quota on `*`, in words
    rate: str  # the rate on `*`, in words
    each: float | None  # requests per second that one tenant may ask for; None: no rate limit on `*`
    capacity: float | None  # requests per second that everyone together may ask for; None: no such limit
    asked: RequestCounts | None
    near: int  # tenants at 80 % of a limit or above

    @property
    def is_own(self) -> bool:
        """Headroom's own, which it keeps itself."""
        return self.tier.name == OWN_TENANT

    @property
    def may_ask(self) -> float | None:
        return None if self.each is None else self.each * self.tenants

    @property
    def over_commit(self) -> float | None:
        """What all tenants may ask for, divided by what everyone together may."""
        return self.may_ask / self.capacity if self.may_ask is not None and self.capacity else None


@dataclass(frozen=True, slots=True)
class AllTiers:
    rows: Sequence[TierFigures]
    measured: TierUsage

    def named(self, name: str) -> TierFigures | None:
        return next((row for row in self.rows if row.tier.name == name), None)


def tier_figures() -> AllTiers:
    """The number of queries does not depend on the number of tiers and tenants."""
    active, archived = Q(tenants__archived_at=None, tenants__isnull=False), Q(tenants__archived_at__isnull=False)
    counts = {"active": Count("tenants", filter=active), "archived": Count("tenants", filter=archived)}
    tiers = Tier.objects.filter(retired=False).annotate(**counts).order_by("name")
    matrix, measured = matrix_read(timezone.now()), tier_usage_read()
    everyone = matrix.cell(EVERYONE, EVERYWHERE)
    protect = holding_of(everyone, 1) if everyone else None
    capacity = protect.rate if protect else None
    return AllTiers([_figures(tier, matrix, measured, capacity) for tier in tiers], measured)


def _figures(tier: Tier, matrix: Matrix, measured: TierUsage, capacity: float | None) -> TierFigures:
    cells = [cell for line in matrix.lines for cell in line.cells if cell.tier == tier.name]
    whole = next((cell for cell in cells if cell.scope == EVERYWHERE), Cell(tier.name, EVERYWHERE))
    held = holding_of(whole, 1)
    limits = [
        TierLimit(cell.scope, one, measured.nearest(tier.number, cell.scope, one.limit))
        for cell in cells
        for one in cell.limits
    ]
    on_all = [one.limit.algorithm for one in whole.limits]
    quotas = [str(limit_short(one)) for one in on_all if isinstance(one, CalendarQuota)]
    use = measured.rows.get((tier.number, EVERY_ENDPOINT))
    return TierFigures(
        tier,
        getattr(tier, "active", 0),
        getattr(tier, "archived", 0),
        limits,
        ", ".join(quotas),
        str(limit_short(held.limit.algorithm)) if held else "",
        held.rate if held else None,
        capacity,
        measured.asked(tier.number, EVERYWHERE),
        use.near if use else 0,
    )
