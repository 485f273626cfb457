"""The evidence of a recommendation, as JSON for pages and the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headroom_edge.plan.subject import TENANT
from quotas.calibration.advice import Facts, advise
from quotas.calibration.burst import Point
from quotas.calibration.capacity import Capacity, NoKnee, OverCommit
from quotas.calibration.estimate import Estimate
from quotas.calibration.parameters import Parameters
from quotas.calibration.recommend import Recommended, TenantLimit
from quotas.models.recommendation import Trust
from quotas.recommendations.measure import Measured, iso
from quotas.usage.queries.sampled_arrivals import SAMPLED

MOST_TENANTS = 200
MOST_SPANS = 50
SURE_DAYS, SURE_C = 21.0, 3.0
LIKELY_C = 1.0


def point_json(point: Point) -> dict[str, float]:
    return {"rate": round(point.rate, 6), "burst": point.burst}


def evidence_of(
    measured: Measured,
    recommended: Recommended,
    wanted: Point,
    marker: Estimate,
    curve: Sequence[Point],
    above: Sequence[TenantLimit] = (),
) -> dict[str, Any]:
    """`marker`: the tenant whose demand sets the limit. `above`: tenants that need more."""
    return {
        "used": {"start": iso(measured.used.start_s), "end": iso(measured.used.end_s)},
        "excluded": _excluded(measured),
        "censored": {
            "hours": measured.censored_hours,
            "share": round(measured.denied / max(1.0, measured.asked), 6),
        },
        "days": round(marker.confidence.days, 2),
        "active_minutes": marker.confidence.active_minutes,
        "c": round(marker.confidence.c, 3),
        "widening": round(min(marker.confidence.widening, 1e6), 4),
        "interval": {
            "low": round(wanted.rate / marker.confidence.widening, 6),
            "high": None if marker.is_lower_bound else round(wanted.rate * marker.confidence.widening, 6),
        },
        "is_lower_bound": marker.is_lower_bound,
        "subject": str(measured.target.subject),
        "subjects": measured.subjects,
        "marker": marker.tenant,
        "percentiles": {str(q): round(rate, 6) for q, rate in marker.percentiles.items()},
        "histogram": measured.spread.rows(),
        "curve": [point_json(point) for point in curve],
        "chosen": point_json(marker.settled),
        "growth": round(marker.growth, 4),
        "wanted": point_json(wanted),
        "votes": sum(one.rate > 0 for one in measured.estimates),
        "tenants": [_tenant(one) for one in _largest(recommended)],
        "affected": sorted(measured.target.names.values())[:MOST_TENANTS],
        "affected_count": len(measured.target.names),
        "counts": counts_of(measured),
        "overrides": [{"tenant": one.estimate.tenant, **point_json(one.point)} for one in above[:MOST_TENANTS]],
        "sudden": measured.sudden[:MOST_TENANTS],
    }


def counts_of(measured: Measured) -> dict[str, int]:
    """Of the tenants that have the limit: whose demand it rests on, and why the others do not count."""
    target, overridden = measured.target, measured.overridden.of_tenant
    estimates = [one for one in measured.estimates if one.tenant not in overridden]
    sudden = sum(name not in overridden for name in measured.sudden)
    return {
        "tenants": len(target.names),
        "measured": len(estimates) - sudden,
        "idle": len(target.names) - len(overridden) - len(estimates),
        "overridden": len(overridden),
        "sudden": sudden,
    }


def advice_of(measured: Measured, point: Point) -> dict[str, Any]:
    is_sampled = measured.target.subject != TENANT
    at_work = round(measured.subjects * SAMPLED) if is_sampled else len(measured.estimates)
    found = advise(measured.target.hints, Facts(point, max(1, at_work)))
    return {"algorithm": found.algorithm, "reason": found.reason, "memory_bytes": found.memory_bytes}


def capacity_json(capacity: Capacity | NoKnee, committed: OverCommit) -> dict[str, Any]:
    shared = {"most_seen": round(capacity.most_seen, 3), "may_ask": round(committed.may_ask, 3)}
    if isinstance(capacity, NoKnee):
        return {**shared, "load": None, "usable": None, "reason": capacity.reason}
    usable = None if committed.usable is None else round(committed.usable, 3)
    return {**shared, "load": round(capacity.load, 3), "usable": usable, "method": capacity.method}


def trust_of(measured: Measured, marker: Estimate, parameters: Parameters) -> Trust:
    """High only if demand was fully visible, for long enough and from enough tenants."""
    if marker.is_lower_bound or marker.confidence.c < LIKELY_C:
        return Trust.LOW
    many = measured.target.tenant or len(measured.estimates) >= parameters.least_tenants
    is_sure = marker.confidence.days >= min(SURE_DAYS, parameters.history_days) and marker.confidence.c >= SURE_C
    return Trust.HIGH if is_sure and many and not measured.sudden else Trust.MEDIUM


def marker_of(estimates: Sequence[Estimate], quantile: float) -> Estimate:
    """The estimate at the quantile of the rates."""
    order = sorted((one for one in estimates if one.rate > 0), key=lambda one: one.point.rate)
    place = int(np.floor(quantile * (len(order) - 1)))
    return order[place]


def _largest(recommended: Recommended) -> list[TenantLimit]:
    return sorted(recommended.tenants.values(), key=lambda one: -one.point.rate)[:MOST_TENANTS]


def _tenant(one: TenantLimit) -> dict[str, Any]:
    return {
        "tenant": one.estimate.tenant,
        **point_json(one.point),
        "seen": round(one.estimate.rate, 6),
        "peak": round(one.estimate.peak / 60, 6),
        "c": round(one.estimate.confidence.c, 3),
        "above": one.is_override,
        "insufficient": one.insufficient.reason if one.insufficient else "",
    }


def _excluded(measured: Measured) -> list[dict[str, str]]:
    gaps = [(span, "no data") for span in measured.gaps]
    censored = [(span, "throttled: true demand may be higher") for span in measured.censored]
    found = sorted(gaps + censored, key=lambda one: one[0].start_s)
    return [{"start": iso(span.start_s), "end": iso(span.end_s), "why": why} for span, why in found[:MOST_SPANS]]
