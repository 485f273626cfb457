"""F8a: a slot moves key by key. At every boundary, each call works wholly, or fails and has changed nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.clusters import SpareCluster
from tests.headroom_edge.lua.moving import SIDES, Call, Outcome, Side, Slot, State
from tests.headroom_edge.lua.moving_plans import PREFIX, SCENARIOS, Scenario
from tests.headroom_edge.lua.world import World

# Lists for people, and a mark that ends by its TTL: the decision counts without them.
HARMLESS = re.compile(rf"^{re.escape(PREFIX)}:(a|d:\w+|s:\w+:q)$")


@dataclass(frozen=True)
class Right:
    """What a call answers and leaves where the slot does not move."""

    outcome: Outcome
    state: State


@pytest.fixture
def slot(cluster: SpareCluster) -> Iterator[Slot]:
    found = Slot(cluster, PREFIX)
    yield found
    found.close()


def told(call: Call, reply: Any) -> Any:
    """Without what differs from run to run: the serial number of a receipt, and how long a key still lives."""
    if call.function == "lease" and isinstance(reply, list):
        return (*reply[:-1], tuple(reply[-1][:3]))
    if call.function == "calendars" and isinstance(reply, list):
        return sorted(tuple([row[0], *row[2:]]) for row in reply[1:])
    return reply


def is_right(call: Call, found: Outcome, before: State, after: State, right: Right) -> bool:
    if told(call, found.reply) != told(call, right.outcome.reply):
        return False
    names = {*after, *right.state}
    return all(
        after.get(name) == right.state.get(name) or (HARMLESS.match(name) and after.get(name) == before.get(name))
        for name in names
    )


@dataclass
class Sweep:
    """All calls of a scenario, at both nodes, at each boundary of an order of the keys."""

    slot: Slot
    calls: Mapping[str, Call]

    def __post_init__(self) -> None:
        self.kept = self.slot.read()
        self.before = self.slot.state()
        self.right = {name: self._ask_still(call) for name, call in self.calls.items()}
        self.worked: set[tuple[str, str, int]] = set()
        self.asked = 0

    def _ask_still(self, call: Call) -> Right:
        found = Right(self.slot.ask("source", call), self.slot.state())
        self.slot.repair(self.before, self.kept, (), is_moving=False)
        return found

    def run(self, order: Sequence[str], *, cold: bool = False) -> None:
        with self.slot.moving():
            for boundary in range(len(order) + 1):
                for name, call in self.calls.items():
                    for side in SIDES:
                        if cold:
                            self.slot.forget_plans(side)
                        self._ask(name, call, side, order[:boundary])
                assert self.slot.state() == self.before
                self.slot.move(order[boundary : boundary + 1])
        assert self.slot.state() == self.before

    def _ask(self, name: str, call: Call, side: Side, moved: Sequence[str]) -> None:
        right = self.right[name]
        # A function cannot change the other node.
        there = {key for key in self.before if (key in moved) == (side == "source")}
        found, held = self.slot.ask_and_look(side, call, list({**self.before, **right.state}))
        where = f"{name} at the {side}, {len(moved)} of {len(self.before)} keys moved, the last one {moved[-1:]}"
        assert not held.keys() & there, f"{where}: on both nodes {held.keys() & there}"
        after = held | {key: self.before[key] for key in there}
        self.asked += 1
        if found.refused and not right.outcome.refused:
            assert re.search("non local key|^AskError|^TryAgainError", found.refused), (where, found.refused)
            assert after == self.before, f"{where}: refused, but it changed {unlike(after, self.before)}"
        elif found.refused:
            assert after == self.before, where
        else:
            assert is_right(call, found, self.before, after, right), (
                where,
                found,
                right.outcome,
                unlike(after, right.state),
            )
            self.worked.add((name, side, len(moved)))
        if after != self.before:
            self.slot.repair(self.before, self.kept, moved)


def unlike(one: State, other: State) -> set[str]:
    return {name for name in {*one, *other} if one.get(name) != other.get(name)}


def sweep_of(slot: Slot, scenario: Scenario) -> Sweep:
    return Sweep(slot, scenario.set_up(World(slot.source)))


def known_before(slot: Slot, sweep: Sweep) -> None:
    """The target knows the plans from an earlier time, under the same token."""
    with slot.moving():
        slot.complete()
        assert not slot.ask("target", sweep.calls["peek known"]).refused


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_call_works_wholly_or_changes_nothing(slot: Slot, name: str) -> None:
    scenario = SCENARIOS[name]
    sweep = sweep_of(slot, scenario)
    known_before(slot, sweep)
    sweep.run(sorted(sweep.before))
    last = len(sweep.before)
    for call in scenario.served:
        assert {(call, "source", 0), (call, "target", last)} <= sweep.worked, f"{call} is refused without need"


@pytest.mark.parametrize("name", ["bypass", "several limits"])
def test_a_node_that_never_had_the_slot_decides_the_same(slot: Slot, name: str) -> None:
    sweep = sweep_of(slot, SCENARIOS[name])
    sweep.calls = {call: sweep.calls[call] for call in ("check known", "check full", "check stranger")}
    sweep.run(sorted(sweep.before), cold=True)
    assert ("check known", "target", len(sweep.before)) in sweep.worked
