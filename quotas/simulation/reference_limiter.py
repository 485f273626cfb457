"""A pure-Python implementation of hr_check and the other Lua functions; tests and replay compare and decide with it.

It keeps the same state as Redis, calculates with the same whole numbers, and must agree to the microsecond. It has no
accounting, no bypass switches and no cap on new subjects.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headroom_edge.algorithms import chain
from headroom_edge.algorithms.adapted import WHOLE
from headroom_edge.algorithms.adaptive_concurrency import WIDTH, AdaptiveConcurrency
from headroom_edge.algorithms.base import Outcome, State
from headroom_edge.algorithms.chain import Cause
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.plan.priority import Priority, lowest
from headroom_edge.results import Result
from quotas.simulation.reference_decision import (
    Evaluation,
    MemberOutcome,
    Receipt,
    Records,
    ReferenceDecision,
    bucket_places,
    decision_of,
    slots_of,
)
from quotas.simulation.reference_plan import LimitIdentity, Place, PlanGroup, PlanMember, RecordKey, ReferencePlan

RECEIPT_NUMBERS = {Pool.kind: 1, Borrowing.kind: 3}


@dataclass(frozen=True, slots=True)
class Request:
    """One request to decide."""

    tenant: str = ""
    subject: Mapping[str, str | None] = field(default_factory=dict)  # dimension → value
    cost: int = 1
    holder: str = ""  # name of the slot holder, for concurrency limits
    priority: Priority | None = None  # the caller's; it can only lower the plan's


ANYBODY = Request()


@dataclass(frozen=True, slots=True)
class ReplayRuling:
    denied_by: str  # the limit's name; empty: allowed
    wait_us: int
    cause: Cause = ""  # why a limit that borrows denied
    lender: str = ""  # the limit that lent, if one did


def sharing_of(member: PlanMember) -> Pool | Borrowing:
    algorithm = member.algorithm
    if not isinstance(algorithm, Pool | Borrowing):
        raise TypeError(f"{member.identity.name} is in a chain, but it is a {algorithm.name}")
    return algorithm


class ReferenceLimiter:
    """Holds the state of any number of tenants. Every call names the plan in force at that moment."""

    def __init__(self) -> None:
        self._records = Records()
        self._refunded: set[tuple[object, ...]] = set()
        self._made = 0  # numbers the holders that have no name
        self.factor = WHOLE  # in 1/1000, of every limit that adapts; set it as the health of the endpoints changes

    def check(self, plan: ReferencePlan, now_us: int, request: Request = ANYBODY) -> ReferenceDecision:
        evaluation = self._evaluate(plan, now_us, request)
        self._settle(evaluation)
        return decision_of(evaluation)

    def rule(self, plan: ReferencePlan, now_us: int, request: Request = ANYBODY) -> ReplayRuling:
        """A check that returns only what replay needs, which is faster."""
        evaluation = self._evaluate(plan, now_us, request)
        self._settle(evaluation)
        denied = evaluation.denied
        if denied:
            return ReplayRuling(denied.member.identity.name, 0, denied.cause)
        return ReplayRuling("", evaluation.wait_us, lender=evaluation.lender)

    def peek(self, plan: ReferencePlan, now_us: int, request: Request = ANYBODY) -> ReferenceDecision:
        """The same decision as `check`, without charging."""
        return decision_of(self._evaluate(plan, now_us, request))

    def release(self, plan: ReferencePlan, now_us: int, request: Request, result: Result = "ignore") -> int:
        """Returns how many slots the holder released; 0: it held none, or it had expired."""
        return sum(self._release(group, now_us, request, result) for group in plan.groups)

    def _release(self, group: PlanGroup, now_us: int, request: Request, result: Result) -> int:
        key, count = group.key(request.tenant, request.subject), 0
        record = self._records.read(group, key, now_us)
        for index, member in enumerate(group.members):
            if not member.is_concurrency:
                continue
            in_flight = self._records.in_flight(key, member, now_us)
            expiry_us = self._records.release(key, member, now_us, request.holder)
            if expiry_us is None:
                continue
            count += 1
            start_us = _start_us(member, expiry_us, now_us)
            if isinstance(member.algorithm, AdaptiveConcurrency) and result != "ignore" and start_us is not None:
                state, latency_us = record.states[index], now_us - start_us
                record.states[index] = member.algorithm.sample(state, now_us, in_flight, latency_us, result)
                self._records.write(key, record)
        return count

    def refund(self, plan: ReferencePlan, now_us: int, receipt: Receipt, request: Request = ANYBODY) -> int:
        """Returns how many limits were refunded; 0 if it is too late, was done before, or the plan has changed."""
        records = (group.key(request.tenant, request.subject) for group in plan.groups)
        # With the plan: after a change of parameters, a receipt of the same moment may have the same numbers.
        once = (plan, receipt.given_us, receipt.tats, receipt.chains, receipt.factor, request.cost, *records)
        if receipt.plan != plan or receipt.given_us > now_us or once in self._refunded:
            return 0
        self._refunded.add(once)
        tats = iter(receipt.tats)
        count = sum(self._refund(group, now_us, receipt, tats, request) for group in plan.groups)
        return count + sum(
            self._refund_chain(plan, places, numbers, now_us, receipt, request)
            for places, numbers in zip(plan.chains, receipt.chains, strict=True)
        )

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
        evaluation = Evaluation(plan, now_us, self._holder(plan, now_us, request), keys, records, self.factor)
        for place, record in enumerate(records):
            for index, member in enumerate(record.group.members):
                if member.is_replaced or member.shares:
                    continue
                state = record.states[index]
                if member.is_concurrency:
                    numbers = (state or (0,) * WIDTH) if isinstance(member.algorithm, AdaptiveConcurrency) else ()
                    state = (*numbers, *self._records.expiries(keys[place], member, now_us, evaluation.holder))
                outcome = member.judge(self.factor).decide(state, now_us, 1 if member.counts_requests else request.cost)
                evaluation.add(MemberOutcome(member, place, index, state, outcome))
        for places in plan.chains:
            self._judge_chain(evaluation, places, request)
        return evaluation

    def _judge_chain(self, evaluation: Evaluation, places: tuple[Place, ...], request: Request) -> None:
        """After all other limits, as Lua does."""
        plan, now_us = evaluation.plan, evaluation.now_us
        members = [plan.groups[place.group].members[place.member] for place in places]
        states = [evaluation.records[place.group].states[place.member] for place in places]
        links = [
            chain.Link(sharing_of(member), state, self._records.tally(evaluation.keys[place.group], member))
            for member, state, place in zip(members, states, places, strict=True)
        ]
        cost = 1 if members[0].counts_requests else request.cost
        ruling = chain.decide(links, now_us, cost, lowest(plan.priority, request.priority))
        evaluation.rulings.append(ruling)
        for link, (member, state, place) in enumerate(zip(members, states, places, strict=True)):
            kept = ruling.before.nodes[link].state
            outcome = Outcome(ruling.verdict(link), ruling.after.nodes[link].state, kept if state else None)
            evaluation.add(MemberOutcome(member, place.group, place.member, state, outcome, ruling, link))

    def _holder(self, plan: ReferencePlan, now_us: int, request: Request) -> str:
        if not plan.has_concurrency or request.holder:
            return request.holder if plan.has_concurrency else ""
        self._made += 1
        return f"{now_us}-{self._made}"

    def _settle(self, evaluation: Evaluation) -> None:
        self._learn(evaluation)
        for one in evaluation.outcomes:
            if slots := slots_of(one.member.algorithm):
                self._records.correct_holders(evaluation.keys[one.place], one.member, slots, evaluation.now_us)
        if evaluation.deniers:
            self._keep_denied(evaluation)
        else:
            self._keep_charged(evaluation)

    def _learn(self, evaluation: Evaluation) -> None:
        """A chain that admits what another limit denies learns nothing."""
        for ruling, places in zip(evaluation.rulings, evaluation.plan.chains, strict=True):
            if ruling.is_admitted and evaluation.deniers:
                continue
            for ask in ruling.asks:
                place, tally = places[ask.lender], ruling.learn(ask)
                if tally:
                    member = evaluation.plan.groups[place.group].members[place.member]
                    self._records.remember(evaluation.keys[place.group], member, tally)

    def _keep_charged(self, evaluation: Evaluation) -> None:
        for one in evaluation.outcomes:
            slots, key = slots_of(one.member.algorithm), evaluation.keys[one.place]
            if slots is None:
                state = one.outcome.charged if one.verdict.admitted else one.outcome.kept
                evaluation.records[one.place].states[one.index] = state
            elif one.verdict.admitted:
                # The hold starts when the wait ends, so that a wait does not shorten it.
                expiry_us = evaluation.now_us + evaluation.wait_us + slots.hold_us
                self._records.hold(key, one.member, evaluation.now_us, evaluation.holder, expiry_us)
                if one.member.algorithm.width:
                    evaluation.records[one.place].states[one.index] = one.outcome.charged[:WIDTH]
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

    def _refund(self, group: PlanGroup, now_us: int, receipt: Receipt, tats: Iterator[int], request: Request) -> int:
        key = group.key(request.tenant, request.subject)
        record, count = self._records.read(group, key, now_us), 0
        for index, member in enumerate(group.members):
            if member.is_replaced or member.shares:
                continue
            tat = self._end_of(key, member, 0, now_us, receipt, next(tats)) if member.is_bucket else 0
            state = record.states[index]
            if member.role == "enforce" and state is not None:
                amount = 1 if member.counts_requests else request.cost
                after = member.judge(receipt.factor).refund(state, now_us, amount, receipt.given_us, tat)
                if after is not None:
                    self._records.compare(key, member, state, after, now_us)
                    record.states[index] = after
                    count += 1
        if count:
            self._records.write(key, record)
        return count

    def _end_of(
        self, key: RecordKey, member: PlanMember, place: int, now_us: int, receipt: Receipt, tat_us: int
    ) -> int:
        """Where a charge ends by now."""
        return self._records.moves(key, member, place).end_of(receipt.given_us, tat_us, now_us)

    def _refund_chain(
        self,
        plan: ReferencePlan,
        places: tuple[Place, ...],
        numbers: tuple[int, ...],
        now_us: int,
        receipt: Receipt,
        request: Request,
    ) -> int:
        count, rest = 0, list(numbers)
        for place in places:
            group = plan.groups[place.group]
            member = group.members[place.member]
            own, rest = rest[: RECEIPT_NUMBERS[member.algorithm.kind]], rest[RECEIPT_NUMBERS[member.algorithm.kind] :]
            key = group.key(request.tenant, request.subject)
            record = self._records.read(group, key, now_us)
            state = record.states[place.member]
            if member.role != "enforce" or state is None:
                continue
            cost = 1 if member.counts_requests else request.cost
            for number, at in enumerate(bucket_places(member.algorithm)):
                own[number] = self._end_of(key, member, at, now_us, receipt, own[number])
            after = chain.refunded(sharing_of(member), state, now_us, cost, receipt.given_us, own)
            if after is not None:
                self._records.compare(key, member, state, after, now_us)
                record.states[place.member] = after
                self._records.write(key, record)
                count += 1
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
                self._records.forget_charges(key, member, now_us)
                count += 1
        if count:
            self._records.write(key, record)
        return count


def _start_us(member: PlanMember, expiry_us: int, now_us: int) -> int | None:
    """When a holder started. None: not known, because it started under another hold or the clock went back."""
    slots = slots_of(member.algorithm)
    start_us = expiry_us - (slots.hold_us if slots else 0)
    return start_us if member.generations[0].since_us <= start_us <= now_us else None
