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
from quotas.usage.queries.demand import days_ago

WEEK_S = 7 * DAY_S
WEEKS = 4
HELD_OUT_DAYS = (7, 2)  # the second if demand has changed since, so that the days before do not foretell the proposal
MOST_NAMES = 100
MOST_TENANTS = 200


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


@dataclass(frozen=True, slots=True)
class TenantEffect:
    """What became of one tenant's requests in the unseen days."""

    tenant: str
    units: float
    now: float  # denied by the current limit
    then: float


@dataclass(slots=True)
class Unseen:
    """The last days, which the replayed limit was not fitted on."""

    start_s: float
    end_s: float
    tenants: list[TenantEffect] = field(default_factory=list)

    def total(self, name: str) -> float:
        return float(sum(getattr(one, name) for one in self.tenants))

    @property
    def then_share(self) -> float | None:
        units = self.total("units")
        return self.total("then") / units if units else None

    def names(self, *, now: bool, then: bool) -> list[str]:
        """Tenants that are denied anything now, then, both or not."""
        return [one.tenant for one in self.tenants if (one.now > 0) == now and (one.then > 0) == then]

    def json(self) -> dict[str, Any]:
        counts = {name: round(self.total(name)) for name in ("units", "now", "then")}
        days = (self.end_s - self.start_s) / DAY_S
        return {
            "start": iso(self.start_s),
            "end": iso(self.end_s),
            "days": round(days, 2),
            "units": counts["units"],
            "denied_now": counts["now"],
            "denied_then": counts["then"],
            "tenants": [
                {
                    "tenant": one.tenant,
                    "units": round(one.units),
                    "denied_now": round(one.now),
                    "denied_then": round(one.then),
                }
                for one in sorted(self.tenants, key=lambda one: (-one.now, -one.then, -one.units))[:MOST_TENANTS]
            ],
        }


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
    for number, parts in enumerate(replay.observed()):
        calm, others = replay.split(parts)
        sudden_units += float(_replayed(others, tried, edges).denied[-1])
        if not calm:
            continue
        before, after = replay.limits(calm[0].tenant, tried)
        sums.add(_replayed(calm, before, edges), _replayed(calm, after, edges))
        sums.headrooms.append(per_minute(after) / max(1.0, *(_peak(one.fine, edges[-2]) for one in calm)))
        for found, cut in zip(past, cuts, strict=True):
            if earlier := [_earlier(one, cut) for one in calm if one.first_s < cut]:
                found.append(estimate_of(earlier, cut, parameters))
        progress("replaying", number + 1, max(number + 2, len(target.names)))
    forecast = _forecast(sums, sudden_units, _unseen(replay, past, cuts), row, parameters)
    forecast["benefit"] = benefit_of(live, tried, forecast, row.evidence, parameters).json()
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


def _earlier(one: Observed, moment_s: float) -> Observed:
    """Only the data from before that moment."""
    minutes = one.demand.minutes
    kept = minutes.starts_s < moment_s
    return replace(
        one,
        demand=Demand(minutes.where(kept), one.demand.censored[kept]),
        fine=one.fine.between(0, moment_s),
    )


def _unseen(replay: _Replay, past: list[list[Estimate]], cuts: list[float]) -> Unseen | None:
    """The last days with the limit that the days before gave. None: nothing was measured before them.

    Values that somebody typed are not fitted to anything, so they are replayed as they are.
    """
    fitted = [_fitted(replay, some) for some in past]
    if replay.row.is_edited:
        fitted = [replay.tried for _ in cuts]
    known = [(limit, cut) for limit, cut in zip(fitted, cuts, strict=True) if limit is not None]
    if not known:
        return None
    limit, cut = next(
        (one for one in known if _direction(replay, one[0]) == _direction(replay, replay.tried)), known[0]
    )
    found = Unseen(cut, replay.now.timestamp())
    for parts in replay.observed():
        calm, _ = replay.split(parts)
        if not calm:
            continue
        before, after = replay.limits(calm[0].tenant, limit)
        live, tried = (_replayed(calm, one, [found.start_s, found.end_s]) for one in (before, after))
        units, denied = float(live.units.sum()), float(live.denied.sum())
        if units:
            found.tenants.append(TenantEffect(calm[0].tenant, units, denied, float(tried.denied.sum())))
    return found


def _fitted(replay: _Replay, past: list[Estimate]) -> Algorithm | None:
    """One step from the current limit towards what these estimates need, as a proposal would go."""
    known = [one for one in past if one.rate > 0]
    if not known:
        return None
    if replay.row.tenant:
        needed = with_margin(known[0].point, replay.parameters)
    else:
        tier = recommend(known, replay.parameters, ignore_gate=True, without=replay.held.of_tenant).tier
        if isinstance(tier, Insufficient):
            return None
        needed = tier.point
    step = change(point_of(replay.live), seen_by(replay.live, needed), float("inf"), replay.parameters)
    return resized(replay.live, step.proposed) if step else replay.live


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
