"""What to suggest for a limit: the one place, so that every page gives the same number for the same question.

The question is always: what does this tenant, or each tenant of this tier, need here? The answer is one step from what
it has towards the need that the last calibration measured, in the limit's own unit. Where calibration has measured
none that is above it, the answer covers the peak of the last day, and says which of the two it rests on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil

from django.db.models import Q

from headroom_edge.algorithms.base import EXACT_MAX, Algorithm, ParameterError
from headroom_edge.algorithms.sharing import Borrowing, Pool
from quotas.calibration.burst import Point
from quotas.calibration.parameters import Parameters
from quotas.calibration.recommend import change
from quotas.calibration.sizing import is_sized, point_of, resized
from quotas.models import LimitNeed
from quotas.policies.limit_words import limit_short
from quotas.recommendations.settings import calibration_parameters
from tenants.isolation import unrestricted

UNMEASURED = 1.5  # times what it has, where no need was measured


@dataclass(frozen=True, slots=True)
class Step:
    algorithm: Algorithm
    needed: Algorithm  # without a bound on one step
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Suggestion:
    algorithm: Algorithm
    why: str  # a sentence
    needed: Algorithm | None = None  # None: not measured, or no more than it has
    measured_at: datetime | None = None

    @property
    def words(self) -> str:
        return str(limit_short(self.algorithm))


def stepped(held: Algorithm, wanted: Point, parameters: Parameters) -> Step | None:
    """One raise from `held` towards `wanted`, which is in terms of it (`seen_by`). None: it has enough."""
    step = change(point_of(held), wanted, 0.0, parameters)
    if step is None:
        return None
    found, needed = resized(held, step.proposed), resized(held, wanted)
    return Step(found, needed, found == needed) if found != held else None


def suggestion_for_tenant(
    *, tenant: str, tier: str, scope: str, limit: str, held: Algorithm, peak: float | None = None
) -> Suggestion | None:
    """`held`: what the tenant has now, overrides included; `peak`: the most it asked for in the last day, as a share
    of that. None: no amount can be suggested for such a limit."""
    need = _need(limit, scope, tenant, tier)
    found = _point(need.tenants.get(tenant)) if need else None
    return _suggestion(held, found, need, tenant, peak)


def suggestion_for_tier(*, tier: str, scope: str, limit: str, held: Algorithm) -> Suggestion | None:
    need = _need(limit, scope, "", tier)
    return _suggestion(held, _point(need.needed) if need else None, need, f"tier {tier}")


def _need(limit: str, scope: str, tenant: str, tier: str) -> LimitNeed | None:
    """A tenant's own policy before its tier's. A tenant's request may see what is said of itself alone."""
    whose = Q(tier=tier, tenant="") | (Q(tenant=tenant) if tenant else Q(pk=None))
    with unrestricted():
        return LimitNeed.objects.filter(whose, limit=limit, endpoint=scope).order_by("-tenant").first()


def _point(stored: dict[str, float] | None) -> Point | None:
    return Point(stored["rate"], int(stored["burst"])) if stored else None


def _suggestion(
    held: Algorithm, wanted: Point | None, need: LimitNeed | None, who: str, peak: float | None = None
) -> Suggestion | None:
    if wanted is None or need is None or not is_sized(held):
        return _covering(held, peak, f"The need of {who} was not measured here")
    parameters = calibration_parameters()
    step = stepped(held, wanted, parameters)
    if step is None:
        return _covering(held, peak, f"The measured need of {who} is met")
    words = limit_short(step.needed)
    why = f"The measured need of {who} is {words}, as of {need.measured_at:%-d %b}"
    if not step.is_whole:
        why += f"; one step is at most {parameters.step_up:g} times what it has"
    return Suggestion(step.algorithm, why, step.needed, need.measured_at)


def _covering(held: Algorithm, peak: float | None, known: str) -> Suggestion | None:
    """Half as much again, or more if the last day asked for more. `known`: what calibration knows."""
    covers = peak * calibration_parameters().margin if peak and peak > 1 else 0.0
    if peak is None or covers <= UNMEASURED:
        found = _grown(held, UNMEASURED)
        return Suggestion(found, f"{known}; this is half as much again") if found else None
    found = _grown(held, covers)
    why = f"{known}, but it asked for {peak:.0%} of its limit at the peak of the last 24 h; this covers that"
    return Suggestion(found, why.replace("%", " %"), found) if found else None


def _grown(held: Algorithm, factor: float) -> Algorithm | None:
    """None: such a limit has no amount, or none so large."""
    if isinstance(held, Pool):
        point = point_of(held.bucket)
        bucket = resized(held.bucket, Point(point.rate * factor, ceil(point.burst * factor)))
        return Pool.parse({**bucket.describe(), "reserve": held.reserve})
    if isinstance(held, Borrowing):
        return _grown_share(held, factor)
    if is_sized(held):
        point = point_of(held)
        return resized(held, Point(point.rate * factor, ceil(point.burst * factor)))
    try:
        return held.scaled(ceil(factor * 100), 100)
    except ParameterError:
        return None


def _grown_share(held: Borrowing, factor: float) -> Borrowing | None:
    """In its own unit of time, up to its ceiling."""
    assured = ceil(held.assured * factor)
    if held.ceiling:
        assured = min(assured, held.ceiling)
    if assured <= held.assured:
        return None
    burst = min(ceil(held.burst * factor), held.ceiling_burst or EXACT_MAX)
    return replace(held, assured=assured, burst=burst)
