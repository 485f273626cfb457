"""A pure-Python implementation of hr_check and the other Lua functions; tests and replay compare and decide with it.

It keeps the same state as Redis, calculates with the same whole numbers, and must agree to the microsecond. It has no
accounting, no bypass switches and no cap on new subjects.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headroom_edge.algorithms.base import State
from headroom_edge.algorithms.concurrency import Concurrency
from quotas.simulation.reference_decision import (
    Evaluation,
    MemberOutcome,
    Receipt,
    Records,
    ReferenceDecision,
    decision_of,
)
from quotas.simulation.reference_plan import LimitIdentity, PlanGroup, ReferencePlan


@dataclass(frozen=True, slots=True)
class Request:
    """One request to decide."""

    tenant: str = ""
    subject: Mapping[str, str | None] = field(default_factory=dict)  # dimension → value
    cost: int = 1
    holder: str = ""  # name of the slot holder, for concurrency limits


ANYBODY = Request()


@dataclass(frozen=True, slots=True)
class ReplayRuling:
    denied_by: str  # the limit's name; empty: allowed
    wait_us: int


class ReferenceLimiter:
    """Holds the state of any number of tenants. Every call names the plan in force at that moment."""

    def __init__(self) -> None:
        self._records = Records()
        self._refunded: set[tuple[object, ...]] = set()
        self._made = 0  # numbers the holders that have no name

    def check(self, plan: ReferencePlan, now_us: int, request: Request = ANYBODY) -> ReferenceDecision:
        evaluation = self._evaluate(plan, now_us, request)
        self._settle(evaluation)
        return decision_of(evaluation)

    def rule(self, plan: ReferencePlan, now_us: int, request: Request = ANYBODY) -> ReplayRuling:
        """A check that returns only what replay needs, which is faster."""
        evaluation = self._evaluate(plan, now_us, request)
        self._settle(evaluation)
        denied = evaluation.denied
        return ReplayRuling(denied.member.identity.name, 0) if denied else ReplayRuling("", evaluation.wait_us)

    def peek(self, plan: ReferencePlan, now_us: int, request: Request = ANYBODY) -> ReferenceDecision:
        """The same decision as `check`, without charging."""
        return decision_of(self._evaluate(plan, now_us, request))

    def release(self, plan: ReferencePlan, now_us: int, request: Request) -> int:
        """Returns how many slots the holder released; 0: it held none, or it had expired."""
        return sum(
            self._records.release(group.key(request.tenant, request.subject), member, now_us, request.holder)
            for group in plan.groups
            for member in group.members
            if member.is_concurrency
        )

    def refund(self, plan: ReferencePlan, now_us: int, receipt: Receipt, request: Request = ANYBODY) -> int:
        """Returns how many limits were refunded; 0 if it is too late, was done before, or the plan has changed."""
        records = (group.key(request.tenant, request.subject) for group in plan.groups)
        # With the plan: after a change of parameters, a receipt of the same moment may have the same numbers.
        once = (plan, receipt.given_us, receipt.tats, request.cost, *records)
        if receipt.plan != plan or receipt.given_us > now_us or once in self._refunded:
            return 0
        self._refunded.add(once)
        tats = iter(receipt.tats)
        return sum(self._refund(group, now_us, receipt.given_us, tats, request) for group in plan.groups)

    def reset(self, plan: ReferencePlan, now_us: int, name: str, request: Request = ANYBODY) -> int:
        """Resets one limit, or all (`*`). Global limits are shared by all tenants and are not reset."""
        return sum(self._reset(group, now_us, name, request) for group in plan.groups if not group.is_global)

    def state(self, plan: ReferencePlan, now_us: int, name: str, request: Request = ANYBODY) -> State | None:
        """The state of a limit, carried over to the plan's parameters."""
        for group in plan.groups:
            record = self._records.read(group, group.key(request.tenant, request.subject), now_us)
            for member, state in zip(group.members, record.states, strict=True):
                if member.identity == LimitIdentity(name) and not member.is_replaced:
                    return state
        return None

    def _evaluate(self, plan: ReferencePlan, now_us: int, request: Request) -> Evaluation:
        keys = [group.key(request.tenant, request.subject) for group in plan.groups]
        records = [self._records.read(group, key, now_us) for group, key in zip(plan.groups, keys, strict=True)]
        evaluation = Evaluation(plan, now_us, self._holder(plan, now_us, request), keys, records)
        for place, record in enumerate(records):
            for index, member in enumerate(record.group.members):
                if member.is_replaced:
                    continue
                state = record.states[index]
                if member.is_concurrency:
                    state = self._records.expiries(keys[place], member, now_us, evaluation.holder)
                outcome = member.algorithm.decide(state, now_us, 1 if member.counts_requests else request.cost)
                evaluation.add(MemberOutcome(member, place, index, state, outcome))
        return evaluation

    def _holder(self, plan: ReferencePlan, now_us: int, request: Request) -> str:
        if not plan.has_concurrency or request.holder:
            return request.holder if plan.has_concurrency else ""
        self._made += 1
        return f"{now_us}-{self._made}"

    def _settle(self, evaluation: Evaluation) -> None:
        for one in evaluation.outcomes:
            if isinstance(one.member.algorithm, Concurrency):
                key = evaluation.keys[one.place]
                self._records.correct_holders(key, one.member, one.member.algorithm, evaluation.now_us)
        if evaluation.deniers:
            self._keep_denied(evaluation)
        else:
            self._keep_charged(evaluation)

    def _keep_charged(self, evaluation: Evaluation) -> None:
        for one in evaluation.outcomes:
            algorithm, key = one.member.algorithm, evaluation.keys[one.place]
            if not isinstance(algorithm, Concurrency):
                state = one.outcome.charged if one.verdict.admitted else one.outcome.kept
                evaluation.records[one.place].states[one.index] = state
            elif one.verdict.admitted:
                # The hold starts when the wait ends, so that a wait does not shorten it.
                expiry_us = evaluation.now_us + evaluation.wait_us + algorithm.hold_us
                self._records.hold(key, one.member, evaluation.now_us, evaluation.holder, expiry_us)
        for key, record in zip(evaluation.keys, evaluation.records, strict=True):
            self._records.write(key, record)

    def _keep_denied(self, evaluation: Evaluation) -> None:
        """Stores only what a denial changes: candidates that decided to admit, and states corrected for the clock."""
        touched = set[int]()
        for one in evaluation.outcomes:
            state = one.outcome.kept
            if one.member.role == "candidate" and one.verdict.admitted and evaluation.candidate_decides(one):
                state = one.outcome.charged
            if state != one.state and not one.member.is_concurrency:
                touched.add(one.place)
                evaluation.records[one.place].states[one.index] = state
        for place in touched:
            self._records.write(evaluation.keys[place], evaluation.records[place])

    def _refund(self, group: PlanGroup, now_us: int, given_us: int, tats: Iterator[int], request: Request) -> int:
        key = group.key(request.tenant, request.subject)
        record, count = self._records.read(group, key, now_us), 0
        for index, member in enumerate(group.members):
            if member.is_replaced:
                continue
            tat = next(tats) if member.is_bucket else 0
            state = record.states[index]
            if member.role == "enforce" and state is not None:
                amount = 1 if member.counts_requests else request.cost
                after = member.algorithm.refund(state, now_us, amount, given_us, tat)
                if after is not None:
                    record.states[index] = after
                    count += 1
        if count:
            self._records.write(key, record)
        return count

    def _reset(self, group: PlanGroup, now_us: int, name: str, request: Request) -> int:
        key = group.key(request.tenant, request.subject)
        if key not in self._records:
            return 0
        record, count = self._records.read(group, key, now_us), 0
        for index, member in enumerate(group.members):
            if not member.is_replaced and name in ("*", member.identity.name):
                record.states[index] = None
                self._records.forget_holders(key, member)
                count += 1
        if count:
            self._records.write(key, record)
        return count
