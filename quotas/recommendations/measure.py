"""Measures one limit from recorded usage: an estimate for each of its tenants, with the data behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from headroom_edge.plan.subject import TENANT
from quotas.calibration.burst import Point
from quotas.calibration.counts import DAY_S, HOUR_S, Counts
from quotas.calibration.demand import Demand, demand_from_counts
from quotas.calibration.estimate import Estimate, Observed, Span, curve_around, estimate
from quotas.calibration.parameters import Parameters
from quotas.calibration.percentiles import Spread
from quotas.calibration.sizing import point_of
from quotas.calibration.subjects import Place, decisive_subject, observed_subjects, subject_estimate
from quotas.calibration.trend import daily_peaks
from quotas.recommendations.in_force import InForce, in_force
from quotas.recommendations.targets import Target
from quotas.usage.queries.demand import (
    TrafficScope,
    days_ago,
    first_seen,
    gaps_between,
    measured_since,
    retry_shares,
    tenant_loads,
)
from quotas.usage.queries.sampled_arrivals import attempts_read

SUDDEN = 5.0  # times the usual daily peak, reached only in the last days: not counted as demand
SUDDEN_DAYS = 3


@dataclass(slots=True)
class Measured:
    """One pass over the tenants of a limit."""

    target: Target
    used: Span
    gaps: list[Span]
    estimates: list[Estimate] = field(default_factory=list)
    subjects: int = 0  # sampled ones, for a limit by key, user or address
    sudden: list[str] = field(default_factory=list)  # tenants that are suddenly far above their own past
    spread: Spread = field(default_factory=Spread)
    censored_hours: int = 0
    censored: list[Span] = field(default_factory=list)
    denied: float = 0.0
    asked: float = 0.0
    last_above_s: float = 0.0  # when any tenant last asked for more than half of the limit
    overridden: InForce = field(default_factory=InForce)  # tenants whose limit is another one now

    def days_below(self) -> float:
        return max(0.0, self.used.end_s - max(self.last_above_s, self.used.start_s)) / DAY_S


def measure(target: Target, parameters: Parameters, now: datetime) -> Measured:
    begin = days_ago(now, parameters.history_days)
    since = max((moment for moment in (begin, measured_since()) if moment), default=begin)
    found = Measured(target, Span(since.timestamp(), now.timestamp()), gaps_between(begin, now).all)
    found.overridden = in_force(target)
    low = point_of(target.algorithm).rate * parameters.down_below
    for parts in observed(target, parameters, begin, now):
        calm = calm_of(parts, now.timestamp())
        found.estimates.append(estimate_of(calm or parts, now.timestamp(), parameters))
        found.subjects += len(parts)
        if not calm:
            found.sudden.append(parts[0].tenant)
        # What a tenant asks for under an override says nothing of how near the others come to their limit.
        is_near = parts[0].tenant not in found.overridden.of_tenant
        for one in parts:
            _note(found, one.demand, low if is_near else float("inf"))
    return found


def calm_of(parts: list[Observed], now_s: float) -> list[Observed]:
    """Without those that are suddenly far above their own past."""
    return [one for one in parts if not is_sudden(one.demand.minutes, now_s)]


def estimate_of(parts: list[Observed], now_s: float, parameters: Parameters) -> Estimate:
    if parts[0].arrivals is None:
        return estimate(parts[0], now_s, parameters)
    return subject_estimate(parts, now_s, parameters)


def observed(target: Target, parameters: Parameters, begin: datetime, now: datetime) -> Iterator[list[Observed]]:
    """One list for each tenant, so that memory does not grow with their number: the tenant, or its subjects."""
    if target.subject == TENANT:
        tenants = observed_tenants(target.traffic, target.names, target.endpoint, parameters, begin, now)
        yield from ([one] for one in tenants)
    elif not target.unsampled:
        gaps = gaps_between(begin, now)
        for tenant, attempts in attempts_read(target.traffic, begin, now):
            name = target.names[tenant]
            place = Place(name, target.endpoint, gaps.of(name))
            yield list(observed_subjects(attempts, place, parameters))


def observed_tenants(
    traffic: TrafficScope,
    names: Mapping[int, str],
    endpoint: str,
    parameters: Parameters,
    begin: datetime,
    now: datetime,
) -> Iterator[Observed]:
    """The load of each tenant, as a limit that counts this traffic sees it; `names` by number."""
    first, gaps = first_seen(traffic), gaps_between(begin, now)
    retries = retry_shares(traffic, begin, now, parameters.retry_grace_s)
    for load in tenant_loads(traffic, begin, now):
        demand = demand_from_counts(load.allowed, load.denied, retries.get(load.tenant, 0.0), parameters=parameters)
        if len(demand.minutes):
            yield Observed(
                names[load.tenant],
                endpoint,
                demand,
                load.fine if len(load.fine) else demand.minutes,
                _first_s(first.get(load.tenant), demand),
                gaps.of(names[load.tenant]),
            )


def is_sudden(minutes: Counts, now_s: float) -> bool:
    """Whether the last days are far above all earlier ones."""
    peaks = daily_peaks(minutes, now_s)
    earlier, latest = peaks[:-SUDDEN_DAYS], peaks[-SUDDEN_DAYS:]
    usual = float(np.median(earlier[earlier > 0])) if (earlier > 0).any() else 0.0
    return usual > 0 and float(latest.max(initial=0.0)) > SUDDEN * max(usual, float(earlier.max()) / 2)


def curve_of(measured: Measured, tenant: str, parameters: Parameters, now: datetime) -> tuple[Point, ...]:
    """Reads the data of one tenant again, for its curve b(r)."""
    own = next((one for one in measured.estimates if one.tenant == tenant), None)
    if own is None:
        return ()
    alone = measured.target.of_one(tenant)
    for parts in observed(alone, parameters, days_ago(now, parameters.history_days), now):
        return _curve(parts, own, now.timestamp(), parameters)
    return ()


def _curve(parts: list[Observed], own: Estimate, now_s: float, parameters: Parameters) -> tuple[Point, ...]:
    """The curve of the tenant, or of the subject whose rate is the tenant's estimate."""
    if parts[0].arrivals is None:
        return curve_around(parts[0], own, parameters)
    calm = calm_of(parts, now_s) or parts
    found = [estimate(one, now_s, parameters) for one in calm]
    place = decisive_subject(found, parameters)
    return curve_around(calm[place], found[place], parameters)


def _first_s(first: datetime | None, demand: Demand) -> float:
    """The start of its history. Its first day counts from its first minute, if that is known."""
    seen = float(demand.minutes.starts_s[0])
    return seen if first is None or first.timestamp() > seen - DAY_S else first.timestamp()


def _note(found: Measured, demand: Demand, low: float) -> None:
    minutes = demand.minutes
    found.spread.add(minutes)
    above = minutes.starts_s[minutes.rates > low]
    found.last_above_s = max(found.last_above_s, float(above[-1]) if len(above) else 0.0)
    hours = np.unique(minutes.starts_s[demand.censored] // HOUR_S)
    found.censored_hours += len(hours)
    found.denied += float(minutes.units[demand.censored].sum())
    found.asked += minutes.total
    if len(hours):
        found.censored.append(Span(float(hours[0] * HOUR_S), float((hours[-1] + 1) * HOUR_S)))


def iso(second: float) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat()
