"""The nightly calibration: measures every limit that can be sized, and files the changes that are worth it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from django.utils import timezone

from headroom_edge.algorithms.base import Algorithm, counted
from headroom_edge.plan.subject import TENANT
from quotas.calibration.burst import Point
from quotas.calibration.capacity import Capacity, NoKnee, OverCommit, Sample, capacity_of, over_commit
from quotas.calibration.estimate import Estimate
from quotas.calibration.parameters import Parameters
from quotas.calibration.recommend import Change, Insufficient, Recommended, TenantLimit, change, recommend
from quotas.calibration.sizing import point_of, resized, seen_by
from quotas.long_tasks import Progress
from quotas.models import Override, Recommendation
from quotas.models.recommendation import Kind, Stage, Trust
from quotas.overrides import UPCOMING, overrides_in
from quotas.policies.limit_codec import algorithm_dump
from quotas.recommendations.benefit import verb_of
from quotas.recommendations.evidence import (
    advice_of,
    capacity_json,
    counts_of,
    evidence_of,
    marker_of,
    point_json,
    trust_of,
)
from quotas.recommendations.filing import AUTHOR as AUTHOR
from quotas.recommendations.filing import store, store_need, withdraw, withdraw_overrides
from quotas.recommendations.forecast import forecast_of
from quotas.recommendations.in_force import touches
from quotas.recommendations.measure import Measured, curve_of, measure
from quotas.recommendations.settings import calibration_chosen
from quotas.recommendations.suggestion import stepped
from quotas.recommendations.targets import Skipped, Target, targets_and_skipped
from quotas.usage.queries.demand import days_ago, measured_until
from quotas.usage.queries.latency import latency_samples
from tenants.identity import Actor

MOST_OVERRIDES = 20  # suggested for one limit at a time

Samples = Callable[[int, datetime, datetime], Sequence[Sample]]  # endpoint → its latency against its load


@dataclass(slots=True)
class Calibrated:
    """Counts of a run."""

    limits: int = 0
    idle: int = 0  # without any traffic
    fitting: int = 0  # no change needed
    insufficient: int = 0
    days: float = 0.0  # of demand, of the tenant whose history is the longest
    left_out: list[dict[str, str]] = field(default_factory=list)  # not worth a proposal, and why
    skipped: list[dict[str, str]] = field(default_factory=list)  # sized in another way, and how
    proposed: list[int] = field(default_factory=list)  # ids of new and updated recommendations


def calibrate(
    now: datetime | None = None,
    progress: Progress = lambda *_: None,
    latency: Samples = latency_samples,
    only: Sequence[int] | None = None,
    filer: Actor | None = None,
) -> Calibrated:
    """Measures up to `now`; default: up to the last recorded usage. `only`: ids of limits; default: all.

    `filer`: who asked for this run; None: nobody, it is the job's.
    """
    until = now or calibrated_until()
    chosen, found = calibration_chosen(), Calibrated()
    parameters, askers = chosen.parameters, _askers(chosen.authors, filer)
    columns: dict[str, Any] = {} if only is None else {"pk__in": only}
    chosen_limits = list(targets_and_skipped(**columns))
    wanted = [one for one in chosen_limits if isinstance(one, Target)]
    found.skipped += [asdict(one) for one in chosen_limits if isinstance(one, Skipped)]
    for number, target in enumerate(wanted):
        progress("measuring", number, len(wanted))
        found.limits += 1
        measured = measure(target, parameters, until)
        if not measured.estimates and not target.unsampled:
            found.idle += 1
            continue
        found.days = max([found.days, *(one.confidence.days for one in measured.estimates)])
        week = days_ago(until, 7), until
        samples = [sample for number in _bounding(target) for sample in latency(number, *week)]
        _file(found, measured, parameters, until, capacity_of(samples), askers)
    progress("measuring", len(wanted), len(wanted))
    return found


def _askers(authors: Iterable[Actor], filer: Actor | None) -> list[dict[str, str]]:
    """Who shaped what this run proposes: whoever chose its parameters, and whoever asked for it."""
    people = dict.fromkeys([*authors, *([filer] if filer else [])])
    return [{"author": one.name, "identity": one.identity} for one in people]


def calibrated_until() -> datetime:
    return measured_until() or timezone.now()


def _bounding(target: Target) -> Iterable[int]:
    """Endpoints whose capacity a limit must respect. A limit by key, user or address does not bound the total load."""
    return (target.traffic.endpoints or ()) if target.subject == TENANT else ()


def _file(
    found: Calibrated,
    measured: Measured,
    parameters: Parameters,
    now: datetime,
    capacity: Capacity | NoKnee,
    askers: list[dict[str, str]],
) -> None:
    target = measured.target
    recommended = recommend(_trusted(measured), parameters, without=measured.overridden.of_tenant)
    wanted = _wanted(measured, recommended, parameters)
    needs = {name: seen_by(target.algorithm, one.point) for name, one in recommended.tenants.items()}
    if isinstance(wanted, Insufficient):
        found.insufficient += 1
        store_need(target, None, needs, now)
        _insufficient(measured, wanted, parameters, now)
        return
    finding = _Finding(measured, recommended, wanted, parameters, now, capacity, askers)
    store_need(target, finding.bearable, needs, now)
    proposals = [proposal for one in finding.above() if (proposal := _override(finding, one))]
    step = finding.step()
    own = _proposal(finding, step) if step else None
    if own is None:
        found.fitting += 1
        withdraw(target, target.tenant, now)
    kept = [row for one in (*([own] if own else []), *proposals) if (row := _filed(found, finding, one))]
    found.proposed += [row.pk for row in kept]
    withdraw_overrides(target, [row.tenant for row in kept if row.kind == Kind.OVERRIDE], now)


@dataclass(frozen=True, slots=True)
class _Proposal:
    kind: Kind
    tenant: str
    algorithm: Algorithm
    fields: dict[str, Any]


def _filed(found: Calibrated, finding: _Finding, proposal: _Proposal) -> Recommendation | None:
    """With its forecast, and only if that shows a benefit; a proposal that changes nothing takes a reader's time."""
    target, now, parameters = finding.target, finding.now, finding.parameters
    tried = Recommendation(
        kind=proposal.kind,
        tenant=proposal.tenant,
        current=algorithm_dump(target.algorithm),
        proposed=algorithm_dump(proposal.algorithm),
        evidence=proposal.fields["evidence"],
    )
    forecast, weeks = forecast_of(tried, target, parameters, now)
    benefit = forecast["benefit"]
    if not benefit["is_worth"]:
        where = {"policy": target.policy, "limit": target.limit, "tier": target.tier, "endpoint": target.endpoint}
        found.left_out.append({**where, "tenant": proposal.tenant, "why": benefit["sentence"]})
        withdraw(target, proposal.tenant, now, benefit["sentence"])
        return None
    fields = {**proposal.fields, "evidence": {**tried.evidence, "weeks": weeks}, "forecast": forecast}
    return store(target, proposal.kind, proposal.tenant, now, proposal.algorithm, fields, parameters)


def _voters(measured: Measured) -> list[Estimate]:
    """Whose demand sets the limit: trusted ones that have this limit, and no other by an override."""
    found = [one for one in _trusted(measured) if one.tenant not in measured.overridden.of_tenant]
    return found or _trusted(measured)


def _trusted(measured: Measured) -> list[Estimate]:
    """Without tenants whose traffic is suddenly far above their own past: they do not count until it has lasted."""
    return [one for one in measured.estimates if one.tenant not in measured.sudden]


def _wanted(measured: Measured, recommended: Recommended, parameters: Parameters) -> Point | Insufficient:
    """What the tier needs; for a tenant's own policy, what that tenant needs."""
    target = measured.target
    if target.unsampled:
        return Insufficient(target.unsampled)
    if target.kind == Kind.TIER:
        tier = recommended.tier
        return tier if isinstance(tier, Insufficient) else tier.point
    own = next(iter(recommended.tenants.values()), None)
    if own is None:
        return Insufficient("its traffic is suddenly far above its own past; wait until it has settled")
    if target.subject != TENANT and measured.subjects < parameters.least_subjects:
        return Insufficient(f"{measured.subjects} of its subjects are sampled; {parameters.least_subjects} are needed")
    days = own.estimate.confidence.days
    if days < parameters.least_days:
        return Insufficient(f"insufficient data: {days:.1f} of {parameters.least_days:g} days")
    return own.point


@dataclass(frozen=True, slots=True)
class _Finding:
    measured: Measured
    recommended: Recommended
    needed: Point
    parameters: Parameters
    now: datetime
    capacity: Capacity | NoKnee
    askers: list[dict[str, str]]

    @property
    def target(self) -> Target:
        return self.measured.target

    @property
    def wanted(self) -> Point:
        return seen_by(self.target.algorithm, self.needed)

    @property
    def committed(self) -> OverCommit:
        return over_commit([self.needed.rate] * max(1, len(self.target.names)), self.capacity, self.parameters)

    @property
    def bearable(self) -> Point:
        """What is wanted. Where capacity binds, a raise is cut to what the backend can take, never below now."""
        current, wanted = point_of(self.target.algorithm), self.wanted
        factor = self.committed.factor
        if factor >= 1 or wanted.rate <= current.rate:
            return wanted
        return Point(max(current.rate, wanted.rate * factor), ceil(max(current.burst, wanted.burst * factor)))

    def step(self) -> Change | None:
        """What to propose."""
        current = point_of(self.target.algorithm)
        return change(current, self.bearable, self.measured.days_below(), self.parameters)

    def above(self) -> list[TenantLimit]:
        """Tenants that need more than their tier has now and will have after the change; the largest first."""
        if self.target.kind != Kind.TIER:
            return []
        held = point_of(self.target.algorithm)
        least = Point(max(held.rate, self.wanted.rate), max(held.burst, self.wanted.burst))
        spared = {*self.measured.overridden.of_tenant, *_upcoming(self.target, self.now)}
        found = [
            one
            for one in self.recommended.tenants.values()
            if one.insufficient is None
            and one.estimate.tenant not in spared
            and change(least, seen_by(self.target.algorithm, one.point), 0.0, self.parameters) is not None
        ]
        return sorted(found, key=lambda one: -one.point.rate)[:MOST_OVERRIDES]


def _upcoming(target: Target, now: datetime) -> set[str]:
    """Tenants that will have an override of this limit."""
    rows = Override.objects.filter(overrides_in(UPCOMING, now), tenant__in=list(target.names))
    found = rows.select_related("endpoint", "tenant")
    return {row.tenant.name for row in found if touches(row, target.limit, target.endpoint)}


def _proposal(finding: _Finding, step: Change) -> _Proposal | None:
    """None: in whole numbers of the limit's own unit it is the same."""
    parameters, target = finding.parameters, finding.target
    proposed = resized(target.algorithm, step.proposed)
    if proposed == target.algorithm:
        return None
    marker = marker_of(_voters(finding.measured), parameters.pool_quantile)
    curve = curve_of(finding.measured, marker.tenant, parameters, finding.now)
    above = finding.above()
    evidence = evidence_of(finding.measured, finding.recommended, finding.wanted, marker, curve, above) | {
        "capacity": capacity_json(finding.capacity, finding.committed),
        "advice": advice_of(finding.measured, finding.needed),
        "is_whole": step.is_whole,
        "needed": algorithm_dump(resized(target.algorithm, finding.wanted)),
        "days_below": round(finding.measured.days_below(), 2),
    }
    fields = {
        "evidence": evidence,
        "trust": trust_of(finding.measured, marker, parameters),
        "binds": finding.committed.binds,
        "askers": finding.askers,
        "summary": _summary(target, proposed, finding),
    }
    return _Proposal(target.kind, target.tenant, proposed, fields)


def _override(finding: _Finding, one: TenantLimit) -> _Proposal | None:
    parameters, target = finding.parameters, finding.target
    held = target.algorithm
    wanted = seen_by(held, one.point)
    suggested = stepped(held, wanted, parameters)
    if suggested is None:
        return None
    curve = curve_of(finding.measured, one.estimate.tenant, parameters, finding.now)
    evidence = evidence_of(finding.measured, finding.recommended, wanted, one.estimate, curve) | {
        "advice": advice_of(finding.measured, one.point),
        "is_whole": suggested.is_whole,
        "needed": algorithm_dump(suggested.needed),
    }
    said = f"{one.estimate.tenant} needs more than tier {target.tier}: {suggested.algorithm.words()}."
    fields = {
        "evidence": evidence,
        "trust": Trust.LOW if one.estimate.is_lower_bound else trust_of(finding.measured, one.estimate, parameters),
        "binds": "demand",
        "askers": finding.askers,
        "summary": said[:300],
    }
    return _Proposal(Kind.OVERRIDE, one.estimate.tenant, suggested.algorithm, fields)


def _summary(target: Target, proposed: Algorithm, finding: _Finding) -> str:
    verb = verb_of(target.algorithm, proposed)
    counts = counts_of(finding.measured)
    who = f"{counts['measured']} of {counts['tenants']} tenants"
    if target.subject != TENANT:
        who = f"{finding.measured.subjects:,} subjects of {counts['measured']} tenants"
    why = f"{who} were measured for {finding.measured.used.days:.0f} days"
    step = "" if proposed == resized(target.algorithm, finding.wanted) else "; a first step"
    return f"{verb} {target}: {target.algorithm.words()} → {proposed.words()}; {why}{step}."[:300]


def _insufficient(measured: Measured, why: Insufficient, parameters: Parameters, now: datetime) -> None:
    ready_at = _ready_at(measured, parameters, now)
    fields = {
        "stage": Stage.INSUFFICIENT,
        "ready_at": ready_at,
        "trust": Trust.LOW,
        "summary": _missing(measured, why, parameters, ready_at)[:300],
        "evidence": {
            "votes": sum(one.rate > 0 for one in measured.estimates),
            "days": round(max((one.confidence.days for one in measured.estimates), default=0.0), 2),
            "histogram": measured.spread.rows(),
            "counts": counts_of(measured),
            "tenants": [{"tenant": one.tenant, **point_json(one.point)} for one in measured.estimates[:200]],
        },
    }
    store(measured.target, measured.target.kind, measured.target.tenant, now, None, fields, parameters)


def _missing(measured: Measured, why: Insufficient, parameters: Parameters, ready_at: datetime | None) -> str:
    """What is missing. The page adds the day on which there will be enough."""
    target = measured.target
    if target.kind != Kind.TIER or target.unsampled:
        return why.reason
    active = sum(one.rate > 0 for one in measured.estimates)
    if active < parameters.least_tenants:
        has = "has" if active == 1 else "have"
        return (
            f"{active} of {counted(len(target.names), 'tenant', 'tenants')} {has} traffic here; "
            f"{parameters.least_tenants} are needed to size a tier's limit. Days do not help, so there is no date"
        )
    known = sum(one.confidence.days >= parameters.least_days for one in measured.estimates)
    if ready_at is None:
        return why.reason + _without_vote(measured)
    return (
        f"{known} of {counted(active, 'tenant', 'tenants')} {'has' if known == 1 else 'have'} "
        f"{parameters.least_days:g} days of history here; "
        f"{parameters.least_tenants} are needed to size a tier's limit"
    )


def _without_vote(measured: Measured) -> str:
    overridden = sum(one.rate > 0 and one.tenant in measured.overridden.of_tenant for one in measured.estimates)
    if not overridden:
        return ""
    return f". {overridden} with an override of this limit {'does' if overridden == 1 else 'do'} not count"


def _ready_at(measured: Measured, parameters: Parameters, now: datetime) -> datetime | None:
    """When there will be enough data, if traffic continues. None: more days alone do not help."""
    days = sorted((one.confidence.days for one in measured.estimates), reverse=True)
    needed = 1 if measured.target.tenant else parameters.least_tenants
    if len(days) < needed:
        return None
    missing = parameters.least_days - days[needed - 1]
    return now + timedelta(days=missing) if missing > 0 else None
