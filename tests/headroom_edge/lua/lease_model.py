"""The reference limiter with leases: hr_lease and hr_return without accounting, bypasses and caps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from headroom_edge.algorithms.leases import (
    LEAST,
    LONGEST_US,
    MOST_CALLS,
    SHARE,
    SHORTEST_US,
    Leases,
    Note,
    in_proportion,
    leases_of,
)
from quotas.policies.spec import USUAL_LEASE_MS
from quotas.simulation.reference_decision import Evaluation, Receipt, ReferenceDecision, decision_of
from quotas.simulation.reference_limiter import ReferenceLimiter, Request
from quotas.simulation.reference_plan import LimitIdentity, PlanGroup, PlanMember, RecordKey, ReferencePlan

KEPT_US = 120_000_000


@dataclass(frozen=True, slots=True)
class ModelReceipt:
    plan: ReferencePlan
    given_us: int
    serial: int
    numbers: dict[tuple[RecordKey, LimitIdentity], int]


@dataclass(frozen=True, slots=True)
class ModelSettlement:
    receipt: ModelReceipt
    back_calls: int
    back_cost: int


@dataclass(frozen=True, slots=True)
class ModelBlock:
    calls: int = 0
    cost: int = 0
    lasts_us: int = 0
    receipt: ModelReceipt | None = None


@dataclass(frozen=True, slots=True)
class Wants:
    calls: int
    cost: int
    longest_ms: int


NONE = ModelBlock()
NEVER = ModelBlock(lasts_us=-1)


class LeaseModel(ReferenceLimiter):
    """`lease_ms` of a limit is by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.lease_ms: dict[str, int] = {}
        self._notes: dict[RecordKey, tuple[object, Note]] = {}  # with the limits that the record had
        self._settled: set[int] = set()
        self._granted = 0

    def lease(
        self, plan: ReferencePlan, now_us: int, request: Request, wants: Wants, settlement: ModelSettlement | None
    ) -> tuple[ReferenceDecision, ModelBlock]:
        if settlement is not None:
            self.give_back(plan, now_us, request, settlement)
        evaluation = self._evaluate(plan, now_us, request)
        decision = decision_of(evaluation)
        block = self._grant(evaluation, wants) if self._is_leasable(evaluation) else NEVER
        self._settle(evaluation)
        return decision, block

    def is_open(self, receipt: ModelReceipt, now_us: int) -> bool:
        return receipt.serial not in self._settled and now_us - receipt.given_us < KEPT_US

    def give_back(self, plan: ReferencePlan, now_us: int, request: Request, settlement: ModelSettlement) -> int:
        receipt = settlement.receipt
        if not self.is_open(receipt, now_us):
            return 0
        self._settled.add(receipt.serial)
        if receipt.plan == plan and receipt.given_us <= now_us:
            for group in plan.groups:
                self._give_back(group, now_us, request, settlement)
        return 1

    def _give_back(self, group: PlanGroup, now_us: int, request: Request, settlement: ModelSettlement) -> None:
        key = group.key(request.tenant, request.subject)
        note = self._note(group, key, now_us)
        if key not in self._records or note.since_us >= settlement.receipt.given_us:
            return
        record, is_changed = self._records.read(group, key, now_us), False
        for index, member, leases in _leased(group):
            state = record.states[index]
            units = settlement.back_calls if member.counts_requests else settlement.back_cost
            if state is None or units == 0:
                continue
            number = settlement.receipt.numbers[key, member.identity]
            back_us = note.back_us.get(member.identity, 0)
            given = leases.give_back(state, now_us, units, number, note.ends_us, back_us)
            if given is not None:
                record.states[index], is_changed = given.state, True
                note.back_us[member.identity] = back_us + given.moved_us
        if is_changed:
            self._records.write(key, record)
            self._notes[key] = (_layout(group), note)

    def _grant(self, evaluation: Evaluation, wants: Wants) -> ModelBlock:
        outcomes = evaluation.outcomes
        if not all(one.verdict.admitted for one in outcomes):
            return NONE
        leased = _rules(evaluation)
        lasts_us = min(wants.longest_ms * 1_000, self._longest_us(evaluation, leased))
        states = [one.outcome.charged for one in outcomes]
        now_us = evaluation.now_us
        for rule, state in zip(leased, states, strict=True):
            lasts_us = min(lasts_us, rule.rest_us(state, now_us))
        want_calls = min(wants.calls, MOST_CALLS)
        calls, cost = want_calls, wants.cost
        if lasts_us < SHORTEST_US:
            return NONE
        for one, rule, state in zip(outcomes, leased, states, strict=True):
            part = rule.room(state, now_us, lasts_us) // SHARE
            part = min(part, rule.most_units) if rule.most_units is not None else part
            calls, cost = (min(calls, part), cost) if one.member.counts_requests else (calls, min(cost, part))
        if min(calls, cost) < LEAST:
            return NONE
        calls, cost = in_proportion(calls, cost, want_calls, wants.cost)
        if min(calls, cost) < LEAST:
            return NONE
        return ModelBlock(calls, cost, lasts_us, self._charge(evaluation, leased, calls, cost, lasts_us))

    def _is_leasable(self, evaluation: Evaluation) -> bool:
        leased = _rules(evaluation)
        return len(leased) == len(evaluation.outcomes) and self._longest_us(evaluation, leased) > 0

    def _longest_us(self, evaluation: Evaluation, leased: list[Leases]) -> int:
        if not leased:
            return USUAL_LEASE_MS * 1_000
        lengths = [rule.longest_us() for rule in leased]
        allowed = [self.lease_ms.get(one.member.identity.name, USUAL_LEASE_MS) for one in evaluation.outcomes]
        return min(*lengths, *(ms * 1_000 for ms in allowed), LONGEST_US)

    def _charge(
        self, evaluation: Evaluation, leased: list[Leases], calls: int, cost: int, lasts_us: int
    ) -> ModelReceipt:
        now_us, numbers = evaluation.now_us, dict[tuple[RecordKey, LimitIdentity], int]()
        notes = [
            self._note(record.group, key, now_us)
            for key, record in zip(evaluation.keys, evaluation.records, strict=True)
        ]
        for one, rule in zip(evaluation.outcomes, leased, strict=True):
            units = calls if one.member.counts_requests else cost
            back_us = notes[one.place].back_us.get(one.member.identity, 0)
            charge = rule.charge(one.outcome.charged, now_us, lasts_us, units, back_us)
            one.outcome = replace(one.outcome, charged=charge.state)
            numbers[evaluation.keys[one.place], one.member.identity] = charge.number
        for key, record, note in zip(evaluation.keys, evaluation.records, notes, strict=True):
            note.ends_us = max(note.ends_us, now_us + lasts_us)
            self._notes[key] = (_layout(record.group), note)
        self._granted += 1
        return ModelReceipt(evaluation.plan, now_us, self._granted, numbers)

    def _note(self, group: PlanGroup, key: RecordKey, now_us: int) -> Note:
        """A copy. If the record's limits have changed, only the latest end is still of use."""
        layout, kept = self._notes.get(key, (None, Note(0)))
        ends_us = min(kept.ends_us, now_us + LONGEST_US)
        if layout == _layout(group):
            return Note(kept.since_us, ends_us, dict(kept.back_us))
        return Note(now_us - 1, ends_us)

    def _refund(self, group: PlanGroup, now_us: int, receipt: Receipt, tats: Iterator[int], request: Request) -> int:
        key = group.key(request.tenant, request.subject)
        note = self._notes.get(key)
        if note is None or note[1].ends_us <= now_us:
            count = super()._refund(group, now_us, receipt, tats, request)
        else:
            # Buckets refund nothing while a lease is out: as if the decision were too old for them.
            late = (0 if member.is_bucket else tat for member, tat in _with_tats(group, tats))
            count = super()._refund(group, now_us, receipt, late, request)
        if count:
            self._forget(group, key, now_us)
        return count

    def _end_of(
        self, key: RecordKey, member: PlanMember, place: int, now_us: int, receipt: Receipt, tat_us: int
    ) -> int:
        """Leases that gave something back moved it too."""
        end_us = super()._end_of(key, member, place, now_us, receipt, tat_us)
        back_us = self._notes[key][1].back_us.get(member.identity, 0) if key in self._notes else 0
        return max(1, end_us - back_us) if end_us else 0

    def _reset(self, group: PlanGroup, now_us: int, name: str, request: Request) -> int:
        count = super()._reset(group, now_us, name, request)
        if count:
            self._forget(group, group.key(request.tenant, request.subject), now_us)
        return count

    def _forget(self, group: PlanGroup, key: RecordKey, now_us: int) -> None:
        if key in self._notes:
            note = self._note(group, key, now_us)
            for member in group.members:
                if back_us := note.back_us.get(member.identity, 0):
                    self._records.moves(key, member).add(now_us, back_us)
            self._notes[key] = (_layout(group), Note(now_us, note.ends_us))


def _with_tats(group: PlanGroup, tats: Iterator[int]) -> Iterator[tuple[PlanMember, int]]:
    for member in group.members:
        if member.is_bucket and not member.is_replaced:
            yield member, next(tats)


def _leased(group: PlanGroup) -> Iterator[tuple[int, PlanMember, Leases]]:
    for index, member in enumerate(group.members):
        rule = None if member.is_replaced else leases_of(member.algorithm)
        if rule is not None:
            yield index, member, rule


def _rules(evaluation: Evaluation) -> list[Leases]:
    found = [leases_of(one.member.algorithm) for one in evaluation.outcomes]
    return [rule for rule in found if rule is not None]


def _layout(group: PlanGroup) -> object:
    """What the header of a record tells about its limits."""
    return tuple((member.identity, member.algorithm, member.turns[0]) for member in group.members)
