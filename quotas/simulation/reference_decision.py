"""One decision of the reference limiter: the stored records, the outcome of every limit, and the reply."""

from dataclasses import dataclass, field

from headroom_edge.algorithms.adapted import WHOLE
from headroom_edge.algorithms.adaptive_concurrency import AdaptiveConcurrency
from headroom_edge.algorithms.base import Algorithm, Outcome, State, Verdict, Window, carry_over
from headroom_edge.algorithms.chain import TALLIES_KEPT, Cause, Ruling, Tally
from headroom_edge.algorithms.concurrency import Concurrency
from headroom_edge.algorithms.moves import GONE_US, Moves
from headroom_edge.algorithms.sharing import Borrowing, window_of
from quotas.simulation.reference_plan import LimitIdentity, PlanGroup, PlanMember, RecordKey, ReferencePlan, Role


@dataclass(slots=True)
class Record:
    group: PlanGroup  # the group it was written under; its members are in the order of the states
    states: list[State | None]


class Records:
    def __init__(self) -> None:
        self._records: dict[RecordKey, Record] = {}
        self._holders: dict[tuple[RecordKey, LimitIdentity], dict[str, int]] = {}
        self._tallies: dict[tuple[object, ...], Tally] = {}
        self._moves: dict[tuple[object, ...], Moves] = {}

    def __contains__(self, key: RecordKey) -> bool:
        return key in self._records

    def read(self, group: PlanGroup, key: RecordKey, now_us: int) -> Record:
        """A copy of the record, with its state carried over to the parameters of this group."""
        record = self._records.get(key)
        if record is None:
            return Record(group, [None] * len(group.members))
        if record.group is group:
            return Record(group, record.states.copy())
        kept = {
            member.identity: (member, state) for member, state in zip(record.group.members, record.states, strict=True)
        }
        return Record(group, [_adopted(member, kept, now_us) for member in group.members])

    def write(self, key: RecordKey, record: Record) -> None:
        self._records[key] = record

    def expiries(self, key: RecordKey, member: PlanMember, now_us: int, holder: str) -> State:
        """Expiries of all live holders except this one: asking again renews a holder's slot."""
        holders = self._holders.get((key, member.identity), {})
        return tuple(sorted(expiry for name, expiry in holders.items() if expiry > now_us and name != holder))

    def hold(self, key: RecordKey, member: PlanMember, now_us: int, holder: str, expiry_us: int) -> None:
        holders = self._holders.setdefault((key, member.identity), {})
        for gone in [name for name, expiry in holders.items() if expiry <= now_us]:
            del holders[gone]
        holders[holder] = expiry_us

    def correct_holders(self, key: RecordKey, member: PlanMember, algorithm: Concurrency, now_us: int) -> None:
        """Shortens expiries that lie too far ahead after the clock stepped back."""
        holders = self._holders.get((key, member.identity), {})
        for name, expiry_us in holders.items():
            holders[name] = algorithm.mended((expiry_us,), now_us)[0]

    def in_flight(self, key: RecordKey, member: PlanMember, now_us: int) -> int:
        return len(self.expiries(key, member, now_us, ""))

    def release(self, key: RecordKey, member: PlanMember, now_us: int, holder: str) -> int | None:
        """The expiry of the slot that was released; None: it held none, or it had expired."""
        expiry_us = self._holders.get((key, member.identity), {}).pop(holder, 0)
        return expiry_us if expiry_us > now_us else None

    def tally(self, key: RecordKey, member: PlanMember) -> Tally | None:
        """What a lender remembers. Without a record it counts for nothing."""
        return self._tallies.get(_tally_key(key, member)) if key in self._records else None

    def remember(self, key: RecordKey, member: PlanMember, tally: Tally) -> None:
        of = _tally_key(key, member)
        if of not in self._tallies and len(self._tallies) >= TALLIES_KEPT:
            self._tallies.clear()
        self._tallies[of] = tally

    def moves(self, key: RecordKey, member: PlanMember, place: int = 0) -> Moves:
        """How far a bucket of a limit went back; `place` is where its numbers begin in the limit's state."""
        return self._moves.setdefault((*_tally_key(key, member), place), Moves())

    def compare(self, key: RecordKey, member: PlanMember, before: State, after: State, now_us: int) -> None:
        """Keeps how far the buckets of a limit went back from one state to another."""
        for place in bucket_places(member.algorithm):
            us = before[place] - after[place] + (before[place + 1] > after[place + 1])
            if us > 0:
                self.moves(key, member, place).add(now_us, us)

    def forget_charges(self, key: RecordKey, member: PlanMember, now_us: int) -> None:
        for place in bucket_places(member.algorithm):
            self.moves(key, member, place).add(now_us, GONE_US)

    def forget_holders(self, key: RecordKey, member: PlanMember) -> None:
        self._holders.pop((key, member.identity), None)


def bucket_places(algorithm: Algorithm) -> tuple[int, ...]:
    """Where a limit's state has the numbers of buckets: of a borrowing one, of its own share and of its ceiling."""
    if isinstance(algorithm, Borrowing):
        return (0, 2)
    return (0,) if algorithm.kind in "tglp" else ()


def _tally_key(key: RecordKey, member: PlanMember) -> tuple[object, ...]:
    return key, member.identity, member.algorithm, member.turns[0]


def _adopted(
    member: PlanMember, kept: dict[LimitIdentity, tuple[PlanMember, State | None]], now_us: int
) -> State | None:
    """The state of a limit, taken from a record that was written under another plan."""
    promoted = kept.get(member.adopts) if member.adopts else None
    written, state = promoted or kept.get(member.identity) or (member, None)
    if state is None or written.algorithm.kind != member.algorithm.kind:
        return None
    if promoted:
        # The store does not move the entries of a candidate's log, only their number, at the time of the newest.
        return (state[-1],) * len(state) if member.algorithm.kind == "o" else state
    index = member.index_of(written)
    return state if index == 0 else _carried(member, index, state, now_us)


def _carried(member: PlanMember, written: int | None, state: State, now_us: int) -> State | None:
    """Carries the state through each change of parameters; None (a fresh start) if the old parameters are unknown."""
    if written is None:
        return None
    current: State | None = state
    for index in range(written, 0, -1):
        before, after = member.generations[index], member.generations[index - 1]
        at_us = min(after.since_us, now_us)
        if current is not None:
            current = carry_over(before.algorithm, after.algorithm, current, at_us, after.carry)
    return current


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """The state of one enforced limit after the request."""

    name: str
    admitted: bool
    quota: int
    window_s: int
    remaining: int
    reset_us: int
    retry_us: int
    wait_us: int
    cause: Cause = ""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a refund must know about the decision."""

    plan: ReferencePlan
    given_us: int
    tats: tuple[int, ...]  # theoretical arrival time of every bucket after the decision
    chains: tuple[tuple[int, ...], ...] = ()  # the numbers of every chain (algorithms.chain)
    factor: int = WHOLE  # of the limits that adapt


@dataclass(frozen=True, slots=True)
class ReferenceDecision:
    allowed: bool
    reason: str  # ok, limit, cost_too_big
    limit: str  # the limit that denied, or that has the least remaining; empty: no limit applies
    quota: int
    remaining: int
    reset_us: int
    retry_us: int  # -1: never
    wait_us: int
    holder: str  # empty unless concurrency is limited
    rows: tuple[LimitStatus, ...]
    shadow_denied: tuple[str, ...]  # shadow limits that would have denied what was allowed
    candidate_denied: tuple[str, ...]  # limits whose candidate would have denied what was allowed
    candidate_allowed: tuple[str, ...]  # limits whose candidate would have allowed what was denied
    receipt: Receipt | None  # None: nothing was charged
    cause: Cause = ""  # why a limit that borrows denied
    lender: str = ""  # the limit that lent, if one did


@dataclass(slots=True)
class MemberOutcome:
    """What one member of the plan decided about the request."""

    member: PlanMember
    place: int  # index of its record
    index: int  # index of its state in the record
    state: State | None
    outcome: Outcome
    ruling: Ruling | None = None  # of the chain that it belongs to
    link: int = 0  # its place in the chain

    @property
    def cause(self) -> Cause:
        return self.ruling.cause if self.ruling and not self.verdict.admitted else ""

    @property
    def verdict(self) -> Verdict:
        return self.outcome.verdict


@dataclass(slots=True)
class Evaluation:
    """What all members of the plan decided about the request. Nothing is stored yet."""

    plan: ReferencePlan
    now_us: int
    holder: str
    keys: list[RecordKey]
    records: list[Record]
    factor: int = WHOLE  # of the limits that adapt, in 1/1000
    outcomes: list[MemberOutcome] = field(default_factory=list)
    deniers: list[MemberOutcome] = field(default_factory=list)
    rulings: list[Ruling] = field(default_factory=list)  # of the plan's chains
    wait_us: int = 0

    def add(self, one: MemberOutcome) -> None:
        self.outcomes.append(one)
        if one.member.role != "enforce":
            return
        if not one.verdict.admitted:
            self.deniers.append(one)
        elif one.verdict.wait_us > self.wait_us:
            self.wait_us = one.verdict.wait_us

    @property
    def denied(self) -> MemberOutcome | None:
        """The limit to report: the first that can never admit the request, or else the first with the longest wait."""
        never = (one for one in self.deniers if one.verdict.retry_us < 0)
        return next(never, None) or max(self.deniers, key=lambda one: one.verdict.retry_us, default=None)

    @property
    def lender(self) -> str:
        """The limit that lent; the first, if several chains borrowed. Empty: none."""
        lent = (
            one
            for one in self.outcomes
            if one.ruling and one.member.role == "enforce" and one.ruling.lender == one.link and one.link > 0
        )
        return next((one.member.identity.name for one in lent), "")

    def candidate_decides(self, candidate: MemberOutcome) -> bool:
        """Whether the candidate decides: no enforced limit denies except the one it would replace."""
        if not self.deniers:
            return True
        replaced = LimitIdentity(candidate.member.identity.name)
        only = self.deniers[0]
        return len(self.deniers) == 1 and only.place == candidate.place and only.member.identity == replaced

    def names(self, role: Role, admitted: bool) -> tuple[str, ...]:
        return tuple(
            one.member.identity.name
            for one in self.outcomes
            if one.member.role == role and one.verdict.admitted == admitted and self.candidate_decides(one)
        )


def slots_of(algorithm: Algorithm) -> Concurrency | None:
    """How it keeps its holders; None: it has none."""
    if isinstance(algorithm, AdaptiveConcurrency):
        return algorithm.slots
    return algorithm if isinstance(algorithm, Concurrency) else None


def decision_of(evaluation: Evaluation) -> ReferenceDecision:
    enforced = [one for one in evaluation.outcomes if one.member.role == "enforce"]
    denied = evaluation.denied
    leaves = [one for one in enforced if one.link == 0]
    named = denied or min(leaves, key=lambda one: one.verdict.remaining, default=None)
    verdict = named.verdict if named else Verdict(True, 0, 0, 0, 0)
    return ReferenceDecision(
        allowed=denied is None,
        reason=_reason(denied),
        limit=named.member.identity.name if named else "",
        quota=_quota(named) if named else 0,
        remaining=verdict.remaining,
        reset_us=verdict.reset_us,
        retry_us=verdict.retry_us,
        wait_us=evaluation.wait_us if denied is None else 0,
        holder=evaluation.holder,
        rows=tuple(_row(one, evaluation) for one in enforced),
        shadow_denied=evaluation.names("shadow", admitted=False) if denied is None else (),
        candidate_denied=evaluation.names("candidate", admitted=False) if denied is None else (),
        candidate_allowed=evaluation.names("candidate", admitted=True) if denied else (),
        receipt=_receipt(evaluation) if denied is None else None,
        cause=denied.cause if denied else "",
        lender=evaluation.lender if denied is None else "",
    )


def _reason(denied: MemberOutcome | None) -> str:
    if denied is None:
        return "ok"
    return "cost_too_big" if denied.verdict.retry_us < 0 else "limit"


def _quota(one: MemberOutcome) -> int:
    live = one.verdict.quota
    return _window(one).quota if live is None else live


def _window(one: MemberOutcome) -> Window:
    if one.ruling:
        return window_of([node.sharing for node in one.ruling.after.nodes[one.link :]])
    return one.member.algorithm.window


def _row(one: MemberOutcome, evaluation: Evaluation) -> LimitStatus:
    verdict, window = one.verdict, _window(one)
    remaining, reset_us = verdict.remaining, verdict.reset_us
    if verdict.admitted and evaluation.deniers:  # nothing was charged
        if one.ruling:
            level = one.ruling.before.level(one.link)
        else:
            level = one.member.judge(evaluation.factor).level(one.state, evaluation.now_us)
        remaining, reset_us = level.remaining, level.reset_us
    name = one.member.identity.name
    seconds = window.seconds or 0
    return LimitStatus(
        name, verdict.admitted, _quota(one), seconds, remaining, reset_us, verdict.retry_us, verdict.wait_us, one.cause
    )


def _receipt(evaluation: Evaluation) -> Receipt:
    buckets = (one for one in evaluation.outcomes if one.member.is_bucket)
    tats = tuple((one.outcome.charged if one.verdict.admitted else one.outcome.kept or (0,))[0] for one in buckets)
    chains = tuple(ruling.receipt() for ruling in evaluation.rulings)
    return Receipt(evaluation.plan, evaluation.now_us, tats, chains, evaluation.factor)
