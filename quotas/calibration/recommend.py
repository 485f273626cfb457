"""From estimates to limits: one for the tier, overrides for those above it, and only what is worth a change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from quotas.calibration.burst import Point
from quotas.calibration.counts import DAY_S, MINUTE_S
from quotas.calibration.estimate import Estimate
from quotas.calibration.parameters import DEFAULTS, Parameters
from quotas.calibration.rare_tenants import PeakSpread, rare_days

ONE_MINUTE = MINUTE_S / DAY_S  # of evidence, in days: the least there can be


@dataclass(frozen=True, slots=True)
class Insufficient:
    """Why nothing is proposed, in one sentence."""

    reason: str


@dataclass(frozen=True, slots=True)
class TierLimit:
    """What a tier gives to each of its tenants on one endpoint."""

    endpoint: str
    point: Point
    votes: int


@dataclass(frozen=True, slots=True)
class TenantLimit:
    """What one tenant needs. The less is known about it, the closer to its tier's limit."""

    estimate: Estimate
    point: Point
    is_override: bool  # above its tier's
    insufficient: Insufficient | None = None  # then `point` is the tier's
    a_minute: float | None = None  # units; None: enough is known to tell rate and burst apart

    @property
    def low(self) -> float:
        return self.point.rate / self.estimate.confidence.widening

    @property
    def high(self) -> float:
        if self.estimate.is_lower_bound:
            return float("inf")
        return self.point.rate * self.estimate.confidence.widening


@dataclass(frozen=True, slots=True)
class Recommended:
    """For the tenants of one tier on one endpoint."""

    tier: TierLimit | Insufficient
    tenants: Mapping[str, TenantLimit]

    @property
    def overrides(self) -> tuple[TenantLimit, ...]:
        return tuple(one for one in self.tenants.values() if one.is_override)


def recommend(
    estimates: Sequence[Estimate],
    parameters: Parameters = DEFAULTS,
    ignore_gate: bool = False,
    without: Collection[str] = (),
) -> Recommended:
    """Estimates of one tier on one endpoint; a backtest ignores the gate of fourteen days and five tenants.

    `without`: tenants whose limit is not the tier's, because they have overrides. They have no vote on it.
    """
    asked = [one for one in estimates if one.tenant not in without]
    voters = [one for one in asked if ignore_gate or _too_young(one, parameters) is None]
    tier = pool(voters, parameters, ignore_gate)
    spread = PeakSpread.of(voters, parameters)
    tenants = {one.tenant: _tenant_limit(one, tier, spread, parameters, ignore_gate) for one in estimates}
    return Recommended(tier, tenants)


def pool(
    estimates: Sequence[Estimate], parameters: Parameters = DEFAULTS, ignore_gate: bool = False
) -> TierLimit | Insufficient:
    """Each tenant counts once, so one that is far above the others moves the limit by one place at most."""
    active = [one for one in estimates if one.rate > 0]
    if not active or (len(active) < parameters.least_tenants and not ignore_gate):
        return Insufficient(
            f"{len(active)} {'tenant has' if len(active) == 1 else 'tenants have'} enough history here; "
            f"{parameters.least_tenants} are needed to size a tier's limit"
        )
    points = [with_margin(one.point, parameters) for one in active]
    rate, burst = (
        float(np.quantile([getattr(point, name) for point in points], parameters.pool_quantile, method="lower"))
        for name in ("rate", "burst")
    )
    return TierLimit(active[0].endpoint, Point(rate, ceil(burst)), len(active))


def with_margin(point: Point, parameters: Parameters = DEFAULTS) -> Point:
    return Point(point.rate * parameters.margin, ceil(point.burst * parameters.burst_margin))


def shrunk(own: float, tier: float, c: float, parameters: Parameters = DEFAULTS) -> float:
    """Between a tenant's own limit and its tier's, by the weight c/(c + 7 days); never below its own.

    With little evidence, the result is the tier's limit. A small tenant with much evidence stays small, because its
    evidence bounds the error.
    """
    if c < ONE_MINUTE:
        return max(own, tier)
    weight = c / (c + parameters.shrink_days)
    reach = own * (1 + float(c**-parameters.reach_power))
    return weight * own + (1 - weight) * max(own, min(tier, reach))


def _tenant_limit(
    estimate: Estimate,
    tier: TierLimit | Insufficient,
    spread: PeakSpread | None,
    parameters: Parameters,
    ignore_gate: bool,
) -> TenantLimit:
    young = None if ignore_gate else _too_young(estimate, parameters)
    if isinstance(tier, Insufficient):
        return TenantLimit(estimate, with_margin(estimate.point, parameters), False, young or tier)
    if young is not None:
        return TenantLimit(estimate, tier.point, False, young)
    if spread is not None and (days := rare_days(estimate, parameters)):
        return _rare_limit(estimate, tier, spread.room(days, estimate.peak, parameters), parameters)
    own, c = with_margin(estimate.point, parameters), estimate.confidence.c
    point = Point(
        shrunk(own.rate, tier.point.rate, c, parameters),
        ceil(shrunk(own.burst, tier.point.burst, c, parameters)),
    )
    known = None if c >= parameters.count_below else point.burst + point.rate * MINUTE_S
    return TenantLimit(estimate, point, _is_above(point, tier), a_minute=known)


def _rare_limit(estimate: Estimate, tier: TierLimit, room: float, parameters: Parameters) -> TenantLimit:
    """From its own peaks and how far such peaks stray: the tier's limit fits hardly any tenant of such a tier."""
    settled = estimate.settled
    point = with_margin(Point(settled.rate * room, max(1, round(settled.burst * room))), parameters)
    return TenantLimit(estimate, point, _is_above(point, tier), a_minute=estimate.peak * room * parameters.margin)


def _is_above(point: Point, tier: TierLimit) -> bool:
    return point.rate > tier.point.rate or point.burst > tier.point.burst


def _too_young(estimate: Estimate, parameters: Parameters) -> Insufficient | None:
    days = estimate.confidence.days
    if days >= parameters.least_days:
        return None
    return Insufficient(f"insufficient data: {days:.1f} of {parameters.least_days:g} days; the tier's limit holds")


@dataclass(frozen=True, slots=True)
class Change:
    current: Point
    proposed: Point
    is_whole: bool  # False: one step of several


def change(current: Point, wanted: Point, days_below: float, parameters: Parameters = DEFAULTS) -> Change | None:
    """What to propose, if anything; `days_below`: how long demand has stayed below half of the current limit."""
    up = max(wanted.rate / current.rate, wanted.burst / current.burst)
    down = max(current.rate / wanted.rate, current.burst / wanted.burst)
    if up >= 1 + parameters.small_change:
        proposed = Point(
            min(max(wanted.rate, current.rate), current.rate * parameters.step_up),
            ceil(min(max(wanted.burst, current.burst), current.burst * parameters.step_up)),
        )
    elif down >= 1 / (1 - parameters.small_change) and days_below >= parameters.down_days:
        proposed = Point(
            max(min(wanted.rate, current.rate), current.rate / parameters.step_down),
            ceil(max(min(wanted.burst, current.burst), current.burst / parameters.step_down)),
        )
    else:
        return None
    return Change(current, proposed, proposed == wanted)
