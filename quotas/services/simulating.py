"""The forecast of a recommendation: recorded load through the limit that holds and the one that is proposed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from quotas.calibration.counts import DAY_S, MINUTE_S, Counts
from quotas.calibration.demand import Demand
from quotas.calibration.estimate import Estimate, Observed, estimate
from quotas.calibration.forecast import Replayed, replayed
from quotas.calibration.parameters import Parameters
from quotas.calibration.recommend import Insufficient, recommend, with_margin
from quotas.calibration.sizing import per_minute, resized, seen_by
from quotas.models import Recommendation
from quotas.models.history import algorithm_load
from quotas.selectors.calibrated import Target
from quotas.selectors.demand import days_ago
from quotas.services.measuring import Progress, iso, observed

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
        """Of the last week: who is denied at all, and who more or less than now."""
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
    """The forecast, and the same week by week."""
    live, tried = (algorithm_load(fields) for fields in (row.current, row.proposed or row.current))
    edges = _edges(parameters, now)
    sums, sudden_units, past = _Sums(len(edges) - 1), 0.0, list[Estimate]()
    kept = set(row.evidence.get("sudden", ()))
    for number, one in enumerate(_observed(row, target, parameters, now)):
        counts = one.fine
        after = replayed(counts, tried, edges)
        if one.tenant in kept:
            sudden_units += float(after.denied[-1])
            continue
        sums.add(one.tenant, replayed(counts, live, edges), after)
        sums.headrooms.append(per_minute(tried) / max(1.0, _peak(counts, edges[-2])))
        past.append(_estimate_at(one, edges[-2], parameters))
        progress("replaying", number + 1, max(number + 2, len(target.names)))
    held_out = _held_out(row, target, parameters, now, past, edges)
    return _forecast(sums, sudden_units, held_out, row, parameters), _weeks(sums, edges)


def _edges(parameters: Parameters, now: datetime) -> list[float]:
    weeks = max(1, min(WEEKS, int(parameters.history_days // 7)))
    return [now.timestamp() - WEEK_S * number for number in range(weeks, -1, -1)]


def _observed(row: Recommendation, target: Target, parameters: Parameters, now: datetime) -> Iterator[Observed]:
    begin = days_ago(now, parameters.history_days)
    for one in observed(target, parameters, begin, now):
        if not row.tenant or one.tenant == row.tenant:
            yield one


def _peak(counts: Counts, since_s: float) -> float:
    return counts.between(since_s, float("inf")).coarser(MINUTE_S).peak


def _estimate_at(one: Observed, moment_s: float, parameters: Parameters) -> Estimate:
    """As it would have been then, knowing nothing of what came later."""
    minutes = one.demand.minutes
    kept = minutes.starts_s < moment_s
    earlier = Observed(
        one.tenant,
        one.endpoint,
        Demand(minutes.where(kept), one.demand.censored[kept]),
        one.fine.between(0, moment_s),
        one.first_s,
        one.gaps,
    )
    return estimate(earlier, moment_s, parameters)


def _held_out(
    row: Recommendation,
    target: Target,
    parameters: Parameters,
    now: datetime,
    past: list[Estimate],
    edges: list[float],
) -> float | None:
    """Share that a limit fitted before the last week would have denied in it; None: too little came before."""
    known = [one for one in past if one.rate > 0]
    if not known:
        return None
    algorithm = algorithm_load(row.current)
    if row.tenant:
        needed = with_margin(known[0].point, parameters)
    else:
        tier = recommend(known, parameters, ignore_gate=True).tier
        if isinstance(tier, Insufficient):
            return None
        needed = tier.point
    limit = resized(algorithm, seen_by(algorithm, needed))
    units = denied = 0.0
    for one in _observed(row, target, parameters, now):
        if one.tenant not in row.evidence.get("sudden", ()):
            found = replayed(one.fine.between(edges[-2], float("inf")), limit, edges[-2:])
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
