"""The combined limits of active tenants compared with the global limit that protects the backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.pages.endpoint.limit_line import RateUnit, holding_of
from dashboards.svg import nice_top
from dashboards.templatetags.numbers import number
from quotas.matrix.queries import EVERYONE, Column, Matrix
from quotas.models import Endpoint
from quotas.usage.queries.near_limits import TierUsage

DIVISIONS = 4
LONG_PERCENT = 75


@dataclass(frozen=True, slots=True)
class TierShare:
    """The combined limits of one tier."""

    tier: str
    color: int
    rate: float  # requests in the page's unit
    at: str = "0%"
    width: str = "0%"

    @property
    def words(self) -> str:
        return f"{self.tier} {number(self.rate)}"


@dataclass(frozen=True, slots=True)
class CommitBar:
    name: str
    shares: Sequence[TierShare]
    end: str = "0%"

    @property
    def total(self) -> float:
        return sum(share.rate for share in self.shares)

    @property
    def is_long(self) -> bool:
        """Beyond it, its figure would leave the chart, so it stands inside."""
        return float(self.end.removesuffix("%")) > LONG_PERCENT


@dataclass(frozen=True, slots=True)
class OverCommit:
    bars: Sequence[CommitBar]
    top: float
    protect: float | None  # the global limit, if any
    unlimited: Sequence[str]  # tiers without a rate limit

    @property
    def protect_at(self) -> str:
        return _percent(self.protect or 0, self.top)

    @property
    def ticks(self) -> list[tuple[str, str]]:
        return [(_percent(self.top * i / DIVISIONS, self.top), number(self.top * i / DIVISIONS)) for i in range(5)]

    @property
    def factor(self) -> float | None:
        """Combined limits divided by the global limit, with the trial limit."""
        return self.bars[-1].total / self.protect if self.protect else None


def over_commit_of(
    tiers: Sequence[Column],
    matrix: Matrix,
    measured: TierUsage,
    endpoint: Endpoint,
    tried: tuple[str, float],
    unit: RateUnit,
) -> OverCommit:
    """In the unit, except `tried`: a tier and its trial limit per second."""
    trial = unit.of(tried[1])
    rates: dict[str, float] = {}
    for column in tiers:
        cell = matrix.cell(column.tier, endpoint.name)
        holding = holding_of(cell, endpoint.default_cost) if cell else None
        if holding:
            rates[column.tier] = unit.of(holding.rate)
    active = {column.tier: _active(measured, column, endpoint) for column in tiers}
    now = [TierShare(t, i + 1, rates.get(t, 0.0) * active[t]) for i, t in enumerate(active)]
    then = [TierShare(p.tier, p.color, trial * active[p.tier] if p.tier == tried[0] else p.rate) for p in now]
    everyone = matrix.cell(EVERYONE, endpoint.name)
    protect = holding_of(everyone, endpoint.default_cost) if everyone else None
    bars = [CommitBar("Now", now), CommitBar(f"With {number(trial)} {unit.label}", then)]
    top = nice_top(max([bar.total for bar in bars] + ([unit.of(protect.rate)] if protect else [])), DIVISIONS)
    placed = [CommitBar(bar.name, _placed(bar.shares, top), _percent(bar.total, top)) for bar in bars]
    return OverCommit(placed, top, unit.of(protect.rate) if protect else None, [t for t in active if t not in rates])


def _active(measured: TierUsage, column: Column, endpoint: Endpoint) -> int:
    row = measured.rows.get((column.number, endpoint.number))
    return row.tenants if row else 0


def _placed(shares: Sequence[TierShare], top: float) -> list[TierShare]:
    found, start = [], 0.0
    for share in shares:
        found.append(TierShare(share.tier, share.color, share.rate, _percent(start, top), _percent(share.rate, top)))
        start += share.rate
    return found


def _percent(value: float, top: float) -> str:
    return f"{min(100 * value / top, 100):.2f}".rstrip("0").rstrip(".") + "%"
