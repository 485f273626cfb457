"""Replays arrivals through whole policies, on the reference limiter and on the real Lua code, request by request.

Both get the same calls at the same times: slots are released when the reference limiter says that they are due.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import groupby, islice
from typing import Any

from headroom_edge.decision import limit_row
from headroom_edge.plan.priority import USUAL, Priority, lowest, priority_of
from headroom_edge.plan.subject import Subject
from quotas.policies.plans import month_start_us
from quotas.policies.spec import EVERYWHERE, Configuration, Endpoint, Limit, Policy, Tenant, Tier
from quotas.simulation.arrivals_csv import Arrival
from quotas.simulation.reference_limiter import RECEIPT_NUMBERS, ReferenceLimiter, Request
from quotas.simulation.reference_plan import PlanMember, ReferencePlan, applied_at, on_calendar
from quotas.simulation.replay import ReplayedArrival
from quotas.simulation.sandbox import BATCH, NO_CAP, Call, Sandbox, SandboxError, Words
from quotas.simulation.scenarios.model import ENDPOINT, TENANT, TIER, limit_names

MOST_TENANTS = 10_000


@dataclass(frozen=True, slots=True)
class PolicyWorld:
    """Policies, and who asks under them. All tenants are of one tier."""

    policies: tuple[Policy, ...]
    tenant: str = TENANT  # of arrivals that name none
    endpoint: str = ENDPOINT
    tenants: Sequence[str] = ()  # all that arrivals name
    endpoints: Sequence[str] = ()
    priorities: Mapping[str, Priority] = field(default_factory=dict)  # of endpoints; others have the usual one
    highest: str = ""  # the highest priority that the tier lets a request have; empty: any

    @classmethod
    def of(cls, policies: Sequence[Policy]) -> PolicyWorld:
        tenants = {policy.tenant for policy in policies if policy.tenant}
        endpoints = {policy.endpoint for policy in policies if policy.endpoint != EVERYWHERE}
        return cls(
            tuple(policies),
            tenants.pop() if len(tenants) == 1 else TENANT,
            endpoints.pop().replace(EVERYWHERE, "any") if len(endpoints) == 1 else ENDPOINT,
        )

    @property
    def limits(self) -> list[Limit]:
        """In the order of the document; several may have the same name."""
        return [limit for policy in self.policies for limit in policy.limits]

    @property
    def subjects(self) -> list[Subject]:
        return list(dict.fromkeys(limit.subject for limit in self.limits if limit.mode != "off"))

    @property
    def tier(self) -> str:
        return next((policy.tier for policy in self.policies if policy.tier), TIER)

    def visited_by(self, arrivals: Iterable[Arrival]) -> PolicyWorld:
        """With the tenants and endpoints of these arrivals, and of the policies."""
        tenants, endpoints = {self.tenant}, {self.endpoint}
        for arrival in arrivals:
            tenants.add(arrival.tenant or self.tenant)
            endpoints.add(arrival.endpoint or self.endpoint)
        tenants |= {policy.tenant for policy in self.policies if policy.tenant}
        endpoints |= {policy.endpoint for policy in self.policies if EVERYWHERE not in policy.endpoint}
        return replace(self, tenants=sorted(tenants), endpoints=sorted(endpoints))

    def configuration(self) -> Configuration:
        names = limit_names(self.policies)
        return Configuration(
            1,
            tiers={self.tier: Tier(1, self.tier, self.highest)},
            endpoints={
                name: Endpoint(number, name, priority=self.priorities.get(name, USUAL))
                for number, name in enumerate(self.endpoints, start=1)
            },
            tenants={name: Tenant(number, name, self.tier) for number, name in enumerate(self.tenants, start=1)},
            policies=self.policies,
            overrides=(),
            limit_numbers={name: number for number, name in enumerate(names, start=1)},
            subject_cap=NO_CAP,
            sample_per_1024=0,
        )


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """A check or, without an arrival, the release of a slot."""

    at_us: int
    request: Request
    endpoint: str
    plan: ReferencePlan
    arrival: Arrival | None = None
    decided: ReplayedArrival | None = None  # by the reference limiter


@dataclass(slots=True)
class ReferenceReplay:
    world: PolicyWorld
    _limiter: ReferenceLimiter = field(default_factory=ReferenceLimiter)
    _plans: dict[tuple[str, str], ReferencePlan] = field(default_factory=dict)
    _due: list[tuple[int, int, ReplayStep]] = field(default_factory=list)  # slots to release, the earliest first
    _dimensions: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        names = (name for subject in self.world.subjects for part in subject.alternatives for name in part)
        self._dimensions = frozenset(names)

    def steps(self, arrivals: Iterable[Arrival]) -> Iterator[ReplayStep]:
        for number, arrival in enumerate(arrivals):
            yield from self._released_until(arrival.t_us)
            yield self._check(number, arrival)

    def _released_until(self, now_us: int) -> Iterator[ReplayStep]:
        while self._due and self._due[0][0] <= now_us:
            due_us, _, step = heappop(self._due)
            self._limiter.release(step.plan, due_us, step.request, "ok")
            yield step

    def _check(self, number: int, arrival: Arrival) -> ReplayStep:
        request, endpoint = self._request(arrival, number), arrival.endpoint or self.world.endpoint
        plan = self._plan(request.tenant, endpoint)
        ruling = self._limiter.rule(plan, arrival.t_us, request)
        decided = ReplayedArrival(
            arrival, not ruling.denied_by, ruling.wait_us, ruling.denied_by, ruling.cause, ruling.lender
        )
        if plan.has_concurrency and decided.allowed and arrival.duration_us is not None:
            due_us = arrival.t_us + decided.wait_us + arrival.duration_us
            heappush(self._due, (due_us, number, ReplayStep(due_us, request, endpoint, plan)))
        return ReplayStep(arrival.t_us, request, endpoint, plan, arrival, decided)

    def _request(self, arrival: Arrival, number: int) -> Request:
        values = dict.fromkeys(self._dimensions, arrival.subject) if arrival.subject else arrival.dimensions
        tenant = arrival.tenant or self.world.tenant
        return Request(tenant, values, arrival.cost, str(number), priority_of(arrival.priority))

    def _plan(self, tenant: str, endpoint: str) -> ReferencePlan:
        plan = self._plans.get((tenant, endpoint))
        if plan is None:
            applied = applied_at(self.world.policies, tenant, self.world.tier, endpoint)
            priority = lowest(self.world.priorities.get(endpoint, USUAL), self.world.highest)
            limits = (replace(one, limit=on_calendar(one.limit, "UTC")) for one in applied)
            plan = ReferencePlan.of(limits, priority)
            self._plans[tenant, endpoint] = plan
        return plan


def on_store(
    sandbox: Sandbox, world: PolicyWorld, steps: Iterable[ReplayStep]
) -> Iterator[tuple[ReplayStep, ReplayedArrival]]:
    """What the store decides about each arrival. The policies are published again each month, as calendars must be."""
    configuration = world.configuration()
    for _, month in groupby(steps, key=lambda step: month_start_us(step.at_us)):
        is_new = True
        while batch := list(islice(month, BATCH)):
            if is_new:
                sandbox.publish(configuration, batch[0].at_us)
                is_new = False
            replies = sandbox.call_all([_call(step) for step in batch])
            for step, reply in zip(batch, replies, strict=True):
                if step.arrival:
                    yield step, _decided(step.plan, step.arrival, reply)


def _call(step: ReplayStep) -> Call:
    request = step.request
    pairs = [word for name, value in request.subject.items() for word in (name, value or "")]
    if step.arrival is None:
        return "release", step.at_us, request.tenant, (step.endpoint, request.holder, "ok", *pairs)
    if request.priority:
        pairs += ["priority", request.priority]
    words: Words = (step.endpoint, request.cost, "ALL", *pairs, "holder", request.holder)
    return "check", step.at_us, request.tenant, words


def _decided(plan: ReferencePlan, arrival: Arrival, reply: list[Any]) -> ReplayedArrival:
    allowed, reason, name, *_ = reply
    if allowed:
        return ReplayedArrival(arrival, True, reply[7], "", "", _lender(plan, reply[10]))
    if reason not in (b"limit", b"cost_too_big"):
        raise SandboxError(f"the store refused a request with the reason {reason.decode()}")
    limit = name.decode()
    rows = (limit_row(raw) for raw in reply[12:])
    cause = next((row.cause for row in rows if row.name == limit and not row.allowed), "")
    return ReplayedArrival(arrival, False, reply[7], limit, cause)


def _lender(plan: ReferencePlan, receipt: Sequence[int]) -> str:
    """The numbers of the chains end a receipt. Within a chain, the first bucket that was charged is the lender's."""
    chains = [[plan.groups[place.group].members[place.member] for place in places] for places in plan.chains]
    numbers = list(receipt[len(receipt) - sum(_width(member) for chain in chains for member in chain) :])
    for chain in chains:
        charged = []
        for member in chain:
            charged.append(numbers[0] > 0)
            del numbers[: _width(member)]
        lender = charged.index(True) if any(charged) else 0
        if lender and chain[0].role == "enforce":
            return chain[lender].identity.name
    return ""


def _width(member: PlanMember) -> int:
    return RECEIPT_NUMBERS[member.algorithm.kind]
