"""Replays one tenant's recorded load through all its limits under one configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headroom_edge.algorithms.sliding_log import SlidingLog
from headroom_edge.plan.subject import TENANT
from quotas.observations.arrays import Ints, whole_numbers
from quotas.policies.layers import PolicyIndex
from quotas.policies.resolve import Effective, Resolved, resolve
from quotas.policies.spec import EVERYWHERE, Configuration, Limit, Tenant
from quotas.simulation.fast_replay import ALLOWED, ArrivalBatch, FastReplay, can_replay, why_not
from quotas.simulation.reference_plan import on_calendar

MICROSECONDS = 1_000_000
GRAINS = 10  # the requests of a step become at most this many arrivals
RECORD_BYTES = 181  # of a record with one limit; further limits of the same scope and subject share it
LIMIT_BYTES = 16
ENTRY_BYTES = 8  # of a sliding log


@dataclass(frozen=True, slots=True)
class EndpointLoad:
    """Requests and their cost per step on one endpoint; steps without requests are left out."""

    endpoint: int
    step_s: int
    starts_s: Ints
    requests: Ints
    cost: Ints


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The limits of one tenant that can be replayed, and the endpoints that each counts."""

    limits: tuple[Limit, ...]
    scopes: tuple[frozenset[int], ...]
    left_out: Mapping[str, str]  # limits that cannot be replayed from counts, and why
    adapting: tuple[
        str, ...
    ]  # limits that are replayed as configured, although they follow the health of their endpoint
    record_bytes: int  # in Redis, with one active subject for each limit per subject
    subject_bytes: int  # for each further subject

    @property
    def per_check(self) -> float:
        """Limits that a check evaluates, on average over the endpoints."""
        numbers = set().union(*self.scopes) if self.scopes else set()
        return sum(len(scope) for scope in self.scopes) / max(1, len(numbers))


@dataclass(frozen=True, slots=True)
class ReplayResult:
    asked: int
    denied: int
    by: Mapping[str, int]  # limit → requests that it denied


def arrivals_of(loads: Sequence[EndpointLoad]) -> ArrivalBatch:
    """Arrivals in order of time. Requests are spread evenly over their step; one arrival may stand for several."""
    parts = [part for load in loads if len(load.starts_s) for part in [_arrivals(load)]]
    if not parts:
        nothing = np.empty(0, np.int64)
        return ArrivalBatch(nothing, nothing, nothing, nothing, nothing)
    times, requests, costs, endpoints = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(times, kind="stable")
    subjects = np.zeros(len(times), np.int64)
    return ArrivalBatch(times[order], subjects, costs[order], requests[order], endpoints[order])


def replay_plan(
    configuration: Configuration, index: PolicyIndex, tenant: Tenant, at_us: int, numbers: set[int]
) -> ReplayPlan:
    """`numbers`: the endpoints with load; 0 stands for all that are not registered."""
    names = {endpoint.number: name for name, endpoint in configuration.endpoints.items()}
    resolved = resolve(index.of_tenant(tenant), at_us)
    held = [(one, scope) for one, scope in _scoped(resolved, names, numbers) if one.limit.mode == "enforce" and scope]
    reasons = {one.limit.name: why for one, _ in held if (why := why_left_out(one.limit))}
    known = [(one, scope) for one, scope in held if not why_left_out(one.limit)]
    return ReplayPlan(
        tuple(on_calendar(one.limit, tenant.timezone) for one, _ in known),
        tuple(scope for _, scope in known),
        {name: reasons[name] for name in sorted(reasons.keys() - {one.limit.name for one, _ in known})},
        tuple(sorted({one.limit.name for one, _ in known if one.limit.adapt})),
        _bytes([one for one, _ in held]),
        _bytes([one for one, _ in held if one.limit.subject != TENANT]),
    )


def why_left_out(limit: Limit) -> str:
    """Why a limit cannot be replayed from one tenant's counts; empty: it can."""
    if not can_replay(limit):
        return why_not(limit.algorithm)
    return "" if limit.subject == TENANT else "usage is recorded for tenants, not for other subjects"


def replay_load(plan: ReplayPlan, batch: ArrivalBatch) -> ReplayResult:
    requests = batch.requests if batch.requests is not None else np.ones(len(batch), np.int64)
    if not plan.limits:
        return ReplayResult(int(requests.sum()), 0, {})
    denied_by = FastReplay(plan.limits, plan.scopes).decide(batch).denied_by
    denied = denied_by != ALLOWED
    sums = np.bincount(denied_by[denied], weights=requests[denied], minlength=len(plan.limits))
    by: dict[str, int] = {}
    for limit, count in zip(plan.limits, sums.tolist(), strict=True):
        if count:
            by[limit.name] = by.get(limit.name, 0) + int(count)
    return ReplayResult(int(requests.sum()), int(requests[denied].sum()), by)


def _scoped(
    resolved: Resolved, names: Mapping[int, str], numbers: set[int]
) -> Iterator[tuple[Effective, frozenset[int]]]:
    own = {number: resolved.own.get(names.get(number, ""), ()) for number in numbers}
    for number, limits in own.items():
        yield from ((one, frozenset({number})) for one in limits)
    for one in resolved.everywhere:
        replaced = {number for number, limits in own.items() if one.limit.name in {e.limit.name for e in limits}}
        yield one, frozenset(numbers - replaced)


def _bytes(held: Sequence[Effective]) -> int:
    """Limits with the same scope and subject share a record; a sliding log also has its own list."""
    records = {(one.scope if one.scope != EVERYWHERE else "", one.limit.subject) for one in held}
    logs = [one.limit.algorithm for one in held if isinstance(one.limit.algorithm, SlidingLog)]
    entries = sum(RECORD_BYTES + ENTRY_BYTES * log.limit for log in logs)
    return len(records) * RECORD_BYTES + max(0, len(held) - len(records)) * LIMIT_BYTES + entries


def _arrivals(load: EndpointLoad) -> tuple[Ints, Ints, Ints, Ints]:
    grains = np.minimum(load.requests, GRAINS)
    places = np.arange(int(grains.sum())) - np.repeat(np.cumsum(grains) - grains, grains)
    spread = places * (load.step_s * MICROSECONDS) // np.repeat(grains, grains)
    times = np.repeat(load.starts_s * MICROSECONDS, grains) + spread
    requests, costs = (_shared(column, grains, places) for column in (load.requests, np.maximum(load.cost, grains)))
    return whole_numbers(times), requests, costs, np.full(len(times), load.endpoint, np.int64)


def _shared(units: Ints, grains: Ints, places: Ints) -> Ints:
    quotient, rest = np.divmod(units, grains)
    return whole_numbers(np.repeat(quotient, grains) + (places < np.repeat(rest, grains)))
