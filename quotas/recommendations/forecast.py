"""The forecast of a recommendation: recorded load replayed through the current and the proposed limit."""

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
from quotas.calibration.recommend import Insufficient, recommend, with_margin
from quotas.calibration.sizing import per_minute, resized, seen_by
from quotas.long_tasks import Progress
from quotas.models import Recommendation
from quotas.policies.limit_codec import algorithm_load
from quotas.recommendations.measure import estimate_of, is_sudden, iso, observed
from quotas.recommendations.targets import Target
from quotas.usage.queries.demand import days_ago

WEEK_S = 7 * DAY_S
WEEKS = 4
MOST_NAMES = 100


@dataclass(slots=True)
class _Sums:
    weeks: int
    units: np.ndarray[Any, Any] = field(init=False)
    now: np.ndarray[Any, Any] = field(init=False)
    then: np.ndarray[Any, Any] = field(init=False)
    hit_now: list[str] = field(default_factory=list)
    hit_then: list[str] = field(default_factory=list)
    newly_hurt: list[str] = field(default_factory=list)
    freed: list[str] = field(default_factory=list)
    headrooms: list[float] = field(default_factory=list)
    tenants: int = 0

    def __post_init__(self) -> None:
        self.units, self.now, self.then = (np.zeros(self.weeks) for _ in range(3))

    def add(self, tenant: str, live: Replayed, tried: Replayed) -> None:
        """Adds the totals, and for the last week which tenants are denied at all, newly, or no longer."""
        self.units += live.units
        self.now += live.denied
        self.then += tried.denied
        before, after = float(live.denied[-1]), float(tried.denied[-1])
        self.tenants += 1
        for names, is_so in (
            (self.hit_now, before > 0),
            (self.hit_then, after > 0),
            (self.newly_hurt, after > 0 and before == 0),
            (self.freed, before > 0 and after == 0),
        ):
            if is_so:
                names.append(tenant)


def forecast_of(
    row: Recommendation, target: Target, parameters: Parameters, now: datetime, progress: Progress = lambda *_: None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The forecast, and the numbers of each week."""
    live = algorithm_load(row.current)
    tried = algorithm_load(row.proposed) if row.proposed else live
    edges = _edges(parameters, now)
    sums, sudden_units, past = _Sums(len(edges) - 1), 0.0, list[Estimate]()
    kept = set(row.evidence.get("sudden", ()))
    for number, parts in enumerate(_observed(row, target, parameters, now)):
        calm, sudden = _split(parts, kept, now)
        sudden_units += float(_replayed(sudden, tried, edges).denied[-1])
        if not calm:
            continue
        sums.add(calm[0].tenant, _replayed(calm, live, edges), _replayed(calm, tried, edges))
        sums.headrooms.append(per_minute(tried) / max(1.0, *(_peak(one.fine, edges[-2]) for one in calm)))
        if earlier := [_earlier(one, edges[-2]) for one in calm if one.first_s < edges[-2]]:
            past.append(estimate_of(earlier, edges[-2], parameters))
        progress("replaying", number + 1, max(number + 2, len(target.names)))
    held_out = _held_out(row, target, live, parameters, now, past, edges)
    return _forecast(sums, sudden_units, held_out, row, parameters), _weeks(sums, edges)


def _edges(parameters: Parameters, now: datetime) -> list[float]:
    weeks = max(1, min(WEEKS, int(parameters.history_days // 7)))
    return [now.timestamp() - WEEK_S * number for number in range(weeks, -1, -1)]


def _observed(row: Recommendation, target: Target, parameters: Parameters, now: datetime) -> Iterator[list[Observed]]:
    """Of a recommendation for one tenant, that tenant's data alone."""
    wanted = target.of_one(row.tenant) if row.tenant else target
    return observed(wanted, parameters, days_ago(now, parameters.history_days), now)


def _split(parts: list[Observed], sudden: set[str], now: datetime) -> tuple[list[Observed], list[Observed]]:
    """Splits off what is suddenly far above its past: tenants as calibration marked them, subjects by their data."""
    is_calm = [
        one.tenant not in sudden if one.arrivals is None else not is_sudden(one.demand.minutes, now.timestamp())
        for one in parts
    ]
    calm, others = ([one for one, calm in zip(parts, is_calm, strict=True) if calm == side] for side in (True, False))
    return calm, others


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


def _held_out(
    row: Recommendation,
    target: Target,
    live: Algorithm,
    parameters: Parameters,
    now: datetime,
    past: list[Estimate],
    edges: list[float],
) -> float | None:
    """The share of the last week that a limit fitted to the weeks before would have denied. None: too little data."""
    known = [one for one in past if one.rate > 0]
    if not known:
        return None
    if row.tenant:
        needed = with_margin(known[0].point, parameters)
    else:
        tier = recommend(known, parameters, ignore_gate=True).tier
        if isinstance(tier, Insufficient):
            return None
        needed = tier.point
    limit = resized(live, seen_by(live, needed))
    units = denied = 0.0
    sudden = set(row.evidence.get("sudden", ()))
    for parts in _observed(row, target, parameters, now):
        found = _replayed(_split(parts, sudden, now)[0], limit, edges[-2:])
        units, denied = units + float(found.units.sum()), denied + float(found.denied.sum())
    return denied / units if units else None


def _forecast(
    sums: _Sums, sudden_units: float, held_out: float | None, row: Recommendation, parameters: Parameters
) -> dict[str, Any]:
    shares = [float(then / units) for then, units in zip(sums.then, sums.units, strict=True) if units > 0]
    seen = float(sums.then.sum() / max(1.0, sums.units.sum()))
    widening = min(float(row.evidence.get("widening", 1.0)), 10.0)
    high = max([seen, held_out or 0.0, parameters.burst_epsilon, *shares]) * widening
    return {
        "denied_share": round(max(seen, held_out or 0.0), 8),
        "low": round(min([seen, *shares]) / widening, 8),
        "high": round(min(1.0, high), 8),
        "denied_share_now": round(float(sums.now.sum() / max(1.0, sums.units.sum())), 8),
        "held_out": None if held_out is None else round(held_out, 8),
        "tenants": sums.tenants,
        "tenants_hit": len(sums.hit_then),
        "tenants_hit_now": len(sums.hit_now),
        "newly_hurt": sums.newly_hurt[:MOST_NAMES],
        "freed": sums.freed[:MOST_NAMES],
        "headroom": round(float(np.median(sums.headrooms)), 3) if sums.headrooms else None,
        "units": round(float(sums.units.sum())),
        "days": 7 * len(shares),
        "abuse_units": round(sudden_units),
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
