"""The forecast of a recommendation: recorded load replayed through the current and the proposed limit.

What counts is the unseen part: the last days, replayed through a limit that was fitted without them. Tenants with an
override in force are replayed through the limit that they have by it, before and after.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np

from headroom_edge.algorithms.base import Algorithm
from quotas.calibration.counts import DAY_S, MINUTE_S, Counts
from quotas.calibration.demand import Demand
from quotas.calibration.estimate import Estimate, Observed
from quotas.calibration.forecast import Replayed, replayed
from quotas.calibration.parameters import Parameters
from quotas.calibration.recommend import Insufficient, change, recommend, with_margin
from quotas.calibration.sizing import per_minute, point_of, resized, seen_by
from quotas.long_tasks import Progress
from quotas.models import Recommendation
from quotas.models.recommendation import Kind
from quotas.policies.limit_codec import algorithm_load
from quotas.recommendations.benefit import benefit_of
from quotas.recommendations.in_force import InForce, in_force
from quotas.recommendations.measure import estimate_of, is_sudden, iso, observed
from quotas.recommendations.targets import Target
from quotas.recommendations.unseen import Thumbs, Unseen
from quotas.usage.queries.demand import days_ago

WEEK_S = 7 * DAY_S
WEEKS = 4
HELD_OUT_DAYS = (7, 2)  # the second if demand has changed since, so that the days before do not foretell the proposal
MOST_NAMES = 100


@dataclass(slots=True)
class _Sums:
    weeks: int
    units: np.ndarray[Any, Any] = field(init=False)
    now: np.ndarray[Any, Any] = field(init=False)
    then: np.ndarray[Any, Any] = field(init=False)
    headrooms: list[float] = field(default_factory=list)
    tenants: int = 0

    def __post_init__(self) -> None:
        self.units, self.now, self.then = (np.zeros(self.weeks) for _ in range(3))

    def add(self, live: Replayed, tried: Replayed) -> None:
        self.units += live.units
        self.now += live.denied
        self.then += tried.denied
        self.tenants += 1


@dataclass(slots=True)
class _Replay:
    """One recommendation and what its replays share."""

    row: Recommendation
    target: Target
    parameters: Parameters
    now: datetime
    live: Algorithm
    tried: Algorithm
    held: InForce
    sudden: set[str]

    def observed(self) -> Iterator[list[Observed]]:
        """Of a recommendation for one tenant, that tenant's data alone."""
        wanted = self.target.of_one(self.row.tenant) if self.row.tenant else self.target
        return observed(wanted, self.parameters, days_ago(self.now, self.parameters.history_days), self.now)

    def limit(self, tenant: str, which: str, tried: Algorithm) -> Algorithm:
        """What this tenant would have by a limit that is tried, or has now."""
        before, after = self.limits(tenant, tried)
        return before if which == "now" else after

    def limits(self, tenant: str, tried: Algorithm) -> tuple[Algorithm, Algorithm]:
        """This tenant's limit now and then. An override goes on, unless it is what is proposed."""
        then = tried if self.row.kind == Kind.OVERRIDE else self.held.limit(tenant, tried)
        return self.held.limit(tenant, self.live), then

    def split(self, parts: list[Observed]) -> tuple[list[Observed], list[Observed]]:
        """Splits off what is suddenly far above its past: tenants as calibration marked them, subjects by data."""
        is_calm = [
            one.tenant not in self.sudden
            if one.arrivals is None
            else not is_sudden(one.demand.minutes, self.now.timestamp())
            for one in parts
        ]
        sides = ([one for one, calm in zip(parts, is_calm, strict=True) if calm == side] for side in (True, False))
        calm, others = sides
        return calm, others


def forecast_of(
    row: Recommendation, target: Target, parameters: Parameters, now: datetime, progress: Progress = lambda *_: None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The forecast, and the numbers of each week."""
    live = algorithm_load(row.current)
    tried = algorithm_load(row.proposed) if row.proposed else live
    sudden = set(row.evidence.get("sudden", ()))
    replay = _Replay(row, target, parameters, now, live, tried, in_force(target), sudden)
    edges = _edges(parameters, now)
    cuts = [now.timestamp() - days * DAY_S for days in HELD_OUT_DAYS]
    sums, sudden_units = _Sums(len(edges) - 1), 0.0
    past: list[list[Estimate]] = [[] for _ in cuts]
    thumbs = [Thumbs() for _ in cuts]
    for number, parts in enumerate(replay.observed()):
        calm, others = replay.split(parts)
        sudden_units += float(_replayed(others, tried, edges).denied[-1])
        if not calm:
            continue
        before, after = replay.limits(calm[0].tenant, tried)
        sums.add(_replayed(calm, before, edges), _replayed(calm, after, edges))
        sums.headrooms.append(per_minute(after) / max(1.0, *(_peak(one.fine, edges[-2]) for one in calm)))
        for found, thumb, cut in zip(past, thumbs, cuts, strict=True):
            if earlier := [earlier_data(one, cut) for one in calm if one.first_s < cut]:
                found.append(estimate_of(earlier, cut, parameters))
                thumb.add([one.demand.minutes for one in earlier], cut)
        progress("replaying", number + 1, max(number + 2, len(target.names)))
    forecast = _forecast(sums, sudden_units, _unseen(replay, past, thumbs, cuts), row, parameters)
    forecast["benefit"] = benefit_of(live, tried, forecast, row.evidence, parameters, is_of_one=bool(row.tenant)).json()
    return forecast, _weeks(sums, edges)


def _edges(parameters: Parameters, now: datetime) -> list[float]:
    weeks = max(1, min(WEEKS, int(parameters.history_days // 7)))
    return [now.timestamp() - WEEK_S * number for number in range(weeks, -1, -1)]


def _replayed(parts: list[Observed], algorithm: Algorithm, edges: list[float]) -> Replayed:
    """Replays each subject by itself, because each has its own allowance."""
    units, denied = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    for one in parts:
        found = replayed(one.fine, algorithm, edges, one.arrivals)
        units, denied = units + found.units, denied + found.denied
    return Replayed(units, denied)


def _peak(counts: Counts, since_s: float) -> float:
    return counts.between(since_s, float("inf")).coarser(MINUTE_S).peak


def earlier_data(one: Observed, moment_s: float) -> Observed:
    """Only the data from before that moment."""
    minutes = one.demand.minutes
    kept = minutes.starts_s < moment_s
    return replace(
        one,
        demand=Demand(minutes.where(kept), one.demand.censored[kept]),
        fine=one.fine.between(0, moment_s),
    )


def _unseen(replay: _Replay, past: list[list[Estimate]], thumbs: list[Thumbs], cuts: list[float]) -> Unseen | None:
    """The last days with the limits that the days before gave. None: nothing was measured before them.

    Values that somebody typed are not fitted to anything, so they are replayed as they are.
    """
    steps = [_steps(replay, some) for some in past]
    if replay.row.is_edited:
        steps = [{"step": replay.tried} for _ in cuts]
    known = [(found, thumb, cut) for found, thumb, cut in zip(steps, thumbs, cuts, strict=True) if found]
    if not known:
        return None
    limits, thumb, cut = next(
        (one for one in known if _direction(replay, one[0]["step"]) == _direction(replay, replay.tried)), known[0]
    )
    found = Unseen(cut, replay.now.timestamp(), {"now": replay.live, **limits, **thumb.limits(replay.live)})
    for parts in replay.observed():
        calm, _ = replay.split(parts)
        if not calm:
            continue
        name = calm[0].tenant
        limits = {which: replay.limit(name, which, one) for which, one in found.limits.items()}
        found.add(name, {which: _replayed(calm, one, found.edges) for which, one in limits.items()})
    return found


def _steps(replay: _Replay, past: list[Estimate]) -> dict[str, Algorithm]:
    """One step from the current limit towards what these estimates need, as a proposal would go, and all of it."""
    known = [one for one in past if one.rate > 0]
    if not known:
        return {}
    if replay.row.tenant:
        needed = with_margin(known[0].point, replay.parameters)
    else:
        tier = recommend(known, replay.parameters, ignore_gate=True, without=replay.held.of_tenant).tier
        if isinstance(tier, Insufficient):
            return {}
        needed = tier.point
    seen = seen_by(replay.live, needed)
    step = change(point_of(replay.live), seen, float("inf"), replay.parameters)
    if step is None:
        return {"step": replay.live}
    return {"step": resized(replay.live, step.proposed), "need": resized(replay.live, seen)}


def _direction(replay: _Replay, limit: Algorithm) -> int:
    before, after = per_minute(replay.live), per_minute(limit)
    return (after > before) - (after < before)


def _forecast(
    sums: _Sums, sudden_units: float, unseen: Unseen | None, row: Recommendation, parameters: Parameters
) -> dict[str, Any]:
    shares = [float(then / units) for then, units in zip(sums.then, sums.units, strict=True) if units > 0]
    seen = float(sums.then.sum() / max(1.0, sums.units.sum()))
    held_out = unseen.then_share if unseen else None
    widening = min(float(row.evidence.get("widening", 1.0)), 10.0)
    high = max([seen, held_out or 0.0, parameters.burst_epsilon, *shares]) * widening
    both = unseen.names(now=True, then=True) if unseen else []
    freed = unseen.names(now=True, then=False) if unseen else []
    hurt = unseen.names(now=False, then=True) if unseen else []
    return {
        "denied_share": round(max(seen, held_out or 0.0), 8),
        "low": round(min([seen, *shares]) / widening, 8),
        "high": round(min(1.0, high), 8),
        "denied_share_now": round(float(sums.now.sum() / max(1.0, sums.units.sum())), 8),
        "held_out": None if held_out is None else round(held_out, 8),
        "tenants": sums.tenants,
        "tenants_hit": len(both) + len(hurt),
        "tenants_hit_now": len(both) + len(freed),
        "newly_hurt": hurt[:MOST_NAMES],
        "freed": freed[:MOST_NAMES],
        "headroom": round(float(np.median(sums.headrooms)), 3) if sums.headrooms else None,
        "units": round(float(sums.units.sum())),
        "days": 7 * len(shares),
        "abuse_units": round(sudden_units),
        "unseen": unseen.json() if unseen else None,
    }


def _weeks(sums: _Sums, edges: list[float]) -> list[dict[str, Any]]:
    return [
        {
            "start": iso(start),
            "end": iso(end),
            "units": round(float(units)),
            "denied_now": round(float(now)),
            "denied_then": round(float(then)),
        }
        for start, end, units, now, then in zip(edges[:-1], edges[1:], sums.units, sums.now, sums.then, strict=True)
        if units > 0
    ]
