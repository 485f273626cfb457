"""What the twin of the store keeps: a record per scope and subject, and the holders of concurrency slots."""

from dataclasses import dataclass

from headroom_edge.algorithms.base import State, carry_over
from headroom_edge.algorithms.concurrency import Concurrency
from quotas.simulation.plan import Group, Identity, Member, RecordKey


@dataclass(slots=True)
class Record:
    group: Group  # as it was written: its members are in the order of the states
    states: list[State | None]


class Records:
    def __init__(self) -> None:
        self._records: dict[RecordKey, Record] = {}
        self._holders: dict[tuple[RecordKey, Identity], dict[str, int]] = {}

    def __contains__(self, key: RecordKey) -> bool:
        return key in self._records

    def read(self, group: Group, key: RecordKey, now_us: int) -> Record:
        """A copy, carried over to the parameters of this group."""
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

    def expiries(self, key: RecordKey, member: Member, now_us: int, holder: str) -> State:
        """Of all holders but this one: the same holder again renews its slot."""
        holders = self._holders.get((key, member.identity), {})
        return tuple(sorted(expiry for name, expiry in holders.items() if expiry > now_us and name != holder))

    def hold(self, key: RecordKey, member: Member, now_us: int, holder: str, expiry_us: int) -> None:
        holders = self._holders.setdefault((key, member.identity), {})
        for gone in [name for name, expiry in holders.items() if expiry <= now_us]:
            del holders[gone]
        holders[holder] = expiry_us

    def mend_holders(self, key: RecordKey, member: Member, algorithm: Concurrency, now_us: int) -> None:
        """Keeps what a step back of the clock makes of their expiries."""
        holders = self._holders.get((key, member.identity), {})
        for name, expiry_us in holders.items():
            holders[name] = algorithm.mended((expiry_us,), now_us)[0]

    def release(self, key: RecordKey, member: Member, now_us: int, holder: str) -> bool:
        return self._holders.get((key, member.identity), {}).pop(holder, 0) > now_us

    def forget_holders(self, key: RecordKey, member: Member) -> None:
        self._holders.pop((key, member.identity), None)


def _adopted(member: Member, kept: dict[Identity, tuple[Member, State | None]], now_us: int) -> State | None:
    """The state of a limit in a record that was written under another plan."""
    promoted = kept.get(member.adopts) if member.adopts else None
    written, state = promoted or kept.get(member.identity) or (member, None)
    if state is None or written.algorithm.kind != member.algorithm.kind:
        return None
    if promoted:
        # The entries of a candidate's log stay behind; what it held counts from its newest on.
        return (state[-1],) * len(state) if member.algorithm.kind == "o" else state
    index = member.index_of(written)
    return state if index == 0 else _carried(member, index, state, now_us)


def _carried(member: Member, written: int | None, state: State, now_us: int) -> State | None:
    """From one set of parameters to the next, up to those in force; not among the known ones: a fresh start."""
    if written is None:
        return None
    current: State | None = state
    for index in range(written, 0, -1):
        before, after = member.generations[index], member.generations[index - 1]
        at_us = min(after.since_us, now_us)
        if current is not None:
            current = carry_over(before.algorithm, after.algorithm, current, at_us, after.carry)
    return current
