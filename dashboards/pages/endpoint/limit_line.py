"""A trial limit on the busiest tenants of a tier: who would be denied and how much, estimated from histograms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from statistics import median

from dashboards.svg import nice_top
from dashboards.templatetags.numbers import number
from headroom_edge.plan.subject import Subject
from quotas.calibration.burst import Point
from quotas.calibration.parameters import Parameters
from quotas.calibration.sizing import bucket, is_sized, point_of, resized
from quotas.matrix.edit import Edit
from quotas.matrix.queries import Cell
from quotas.policies.allowance import allowance_of
from quotas.policies.limit_codec import limit_fields
from quotas.policies.spec import EVERYWHERE, Limit
from quotas.recommendations.suggestion import Suggestion, suggestion_for_tier
from quotas.usage.queries.busiest_tenants import BusiestTenants, BusyTenant, DeniedTenant

DIVISIONS = 5
STEPS = 100  # of the limit line over the whole axis
MOST_SHOWN = 16
MOST_OF_SECONDS = 2  # busy seconds extend the axis to at most this many times the minutes and limits
MOST_STRUCK = 5
NEW_LIMIT = "steady"
CLOSE = 0.001  # relative: an address carries a rounded rate


@dataclass(frozen=True, slots=True)
class RateUnit:
    """The window of the limit, in which the page writes every rate: 6/10s stays 6/10s."""

    window_s: float = 1.0
    words: str = "s"

    @property
    def label(self) -> str:
        return f"req/{self.words}"

    def of(self, per_second: float) -> float:
        return per_second * self.window_s


@dataclass(frozen=True, slots=True)
class Holding:
    """The tightest rate limit for tenants of a tier on the endpoint, in requests of the usual cost."""

    limit: Limit
    rate: float
    burst: float
    is_own: bool  # False: it is on `*` and also counts other endpoints

    @property
    def unit(self) -> RateUnit:
        allowance = allowance_of(self.limit.algorithm)
        return RateUnit(allowance.window_s, allowance.window_words) if allowance else RateUnit()

    @property
    def words(self) -> str:
        return f"{number(self.unit.of(self.rate))} {self.unit.label}"


def holding_of(cell: Cell, cost: int) -> Holding | None:
    """The tightest enforced limit per tenant; None if there is no rate limit."""
    found = [
        _holding(one.limit, is_own, cost)
        for is_own, limits in ((True, cell.limits), (False, cell.inherited))
        for one in limits
        if one.limit.subject == Subject() and is_sized(one.limit.algorithm) and one.limit.mode == "enforce"
    ]
    return min(found, key=lambda one: (not one.is_own, one.rate), default=None)


def _holding(limit: Limit, is_own: bool, cost: int) -> Holding:
    point, each = point_of(limit.algorithm), cost if limit.unit == "cost" else 1
    return Holding(limit, point.rate / each, point.burst / each, is_own)


@dataclass(frozen=True, slots=True)
class SuggestedLine:
    suggestion: Suggestion
    rate: float  # requests per second, of the usual cost
    burst: float

    def is_at(self, rate: float) -> bool:
        return abs(rate - self.rate) <= CLOSE * self.rate


def suggested_line(tier: str, cell: Cell, holding: Holding | None, cost: int) -> SuggestedLine | None:
    """Only of a limit that counts this endpoint alone, and only if more than it has was measured."""
    if holding is None or not holding.is_own:
        return None
    limit = holding.limit
    found = suggestion_for_tier(tier=tier, scope=cell.scope, limit=limit.name, held=limit.algorithm)
    if found is None or found.needed is None:
        return None
    point, each = point_of(found.algorithm), cost if limit.unit == "cost" else 1
    return SuggestedLine(found, point.rate / each, point.burst / each)


@dataclass(frozen=True, slots=True)
class Bar:
    leader: BusyTenant
    y: int  # pixels
    rate: str  # percent of the axis
    peak: str
    is_cut: bool  # its busiest second is beyond the axis
    unit: RateUnit

    @property
    def middle(self) -> int:
        return self.y + 8

    @property
    def label(self) -> str:
        rate = number(self.unit.of(self.leader.rate))
        return f"{rate}, peak {number(self.unit.of(self.leader.in_1s))} →" if self.is_cut else rate


@dataclass(frozen=True, slots=True)
class Tick:
    at: str
    label: str
    minor: bool


@dataclass(frozen=True, slots=True)
class Axis:
    """From 0 to `top` requests in the unit."""

    top: float
    unit: RateUnit

    @classmethod
    def of(cls, leaders: BusiestTenants, holding: Holding | None, unit: RateUnit) -> Axis:
        """Busy seconds take at most half of the axis, so that they do not flatten the minutes and limits."""
        steady = max([1.3 * holding.rate if holding else 0, *(leader.peak for leader in leaders.leaders)])
        seconds = max(leader.in_1s for leader in leaders.leaders)
        return cls(nice_top(unit.of(max(steady, min(seconds, MOST_OF_SECONDS * steady))), DIVISIONS), unit)

    @property
    def step(self) -> float:
        return self.top / STEPS

    @property
    def top_per_second(self) -> float:
        return self.top / self.unit.window_s

    def percent(self, per_second: float) -> str:
        return f"{min(100 * self.unit.of(per_second) / self.top, 100):.2f}".rstrip("0").rstrip(".") + "%"

    @property
    def ticks(self) -> list[Tick]:
        shares = [i / DIVISIONS for i in range(DIVISIONS + 1)]
        return [
            Tick(self.percent(self.top_per_second * share), number(self.top * share), i % 2 == 1)
            for i, share in enumerate(shares)
        ]

    def bars(self, leaders: BusiestTenants) -> list[Bar]:
        return [
            Bar(
                leader,
                6 + 29 * i,
                self.percent(leader.rate),
                self.percent(leader.in_1s),
                leader.in_1s > self.top_per_second,
                self.unit,
            )
            for i, leader in enumerate(leaders.leaders[:MOST_SHOWN])
        ]


@dataclass(frozen=True, slots=True)
class Trial:
    leaders: BusiestTenants
    rate: float
    burst: int
    struck: Sequence[DeniedTenant] = field(default=())

    @classmethod
    def of(cls, leaders: BusiestTenants, rate: float, burst: int) -> Trial:
        return cls(leaders, rate, burst, leaders.denied_tenants(rate, burst))

    @property
    def denied_share(self) -> float:
        return min(sum(one.denied for one in self.struck) / self.leaders.asked, 1.0) if self.leaders.asked else 0.0

    @property
    def is_beyond(self) -> bool:
        """Below the rate of every listed tenant, so unlisted tenants may be affected too."""
        return self.rate < self.leaders.lowest

    @property
    def tenants(self) -> str:
        count = len(self.struck)
        if self.is_beyond:
            return f"at least {count} tenants"
        return f"{count or 'no'} tenant{'' if count == 1 else 's'}"

    @property
    def headroom(self) -> float:
        """The trial rate relative to the median tenant."""
        middle = median(leader.rate for leader in self.leaders.leaders)
        return self.rate / middle if middle else 0.0

    @property
    def may_ask(self) -> float:
        return self.rate * self.leaders.tenants

    @property
    def worst(self) -> Sequence[DeniedTenant]:
        return self.struck[:MOST_STRUCK]


def burst_for(leaders: BusiestTenants, rate: float, parameters: Parameters) -> int:
    """The burst that admits the busiest second of most tenants, with the share and margin of calibration."""
    peaks = sorted(leader.in_1s for leader in leaders.leaders)
    place = min(ceil(parameters.pool_quantile * len(peaks)), len(peaks)) - 1
    return max(ceil(rate), ceil(peaks[place] * parameters.burst_margin), 1)


def burst_words(parameters: Parameters) -> str:
    return f"{parameters.burst_margin:g} × the busiest second of {100 * parameters.pool_quantile:g} % of tenants"


def edit_of(cell: Cell, holding: Holding | None, rate: float, burst: int, cost: int) -> Edit:
    """Edits the endpoint's own limit, or adds one if it has none."""
    if holding is None or not holding.is_own:
        fresh = Limit(NEW_LIMIT, bucket(Point(rate, burst)), Subject())
        return Edit(cell.tier or None, cell.scope, NEW_LIMIT, limit_fields(fresh))
    each = cost if holding.limit.unit == "cost" else 1
    sized = resized(holding.limit.algorithm, Point(rate * each, burst * each))
    return Edit(
        cell.tier or None, cell.scope, holding.limit.name, limit_fields(replace(holding.limit, algorithm=sized))
    )


def scope_words(holding: Holding | None) -> str:
    if holding is None:
        return "No rate limit applies here."
    if holding.is_own:
        return f"The limit {holding.limit.name} allows each tenant {holding.words} here."
    return f"The limit {holding.limit.name} on {EVERYWHERE} allows each tenant {holding.words} over all endpoints."
