"""F8a: a slot moves key by key. At every boundary, each call works wholly, or fails and has changed nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest
import redis

from headroom_edge import keys
from headroom_edge.algorithms.base import SECOND_US
from tests.clusters import SpareCluster
from tests.headroom_edge.lua.moving import SIDES, Call, Outcome, Side, Slot, State
from tests.headroom_edge.lua.moving_plans import ENDPOINT, KNOWN, PREFIX, SCENARIOS, SHARD, Scenario, bucket, per_key
from tests.headroom_edge.lua.world import NOW_US, TENANT, World

# Lists for people, and a mark that ends by its TTL: the decision counts without them.
HARMLESS = re.compile(rf"^{re.escape(PREFIX)}:(a|d:\w+|s:\w+:q)$")
BESIDE = re.compile(r":[lh]:\w+$|:e$")


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
        return sorted((row[0], *row[2:]) for row in reply[1:])
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
        self.slot.restore(self.before, self.kept)
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
            here = {key: stored for key, stored in self.kept.items() if key not in there}
            self.slot.put_back(side, held, self.before, here)


def unlike(one: State, other: State) -> set[str]:
    return {name for name in {*one, *other} if one.get(name) != other.get(name)}


def decisive_first(state: State) -> list[str]:
    """What every check reads moves first, so the target decides while the rest is still on the source.

    Records move before what is kept beside them.
    """
    decisive = [PREFIX, keys.tenants(SHARD), keys.config(SHARD), keys.usage(SHARD)]
    return decisive + sorted({*state} - {*decisive}, key=lambda name: (bool(BESIDE.search(name)), name))


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
    first = decisive_first(sweep.before)
    sweep.run(first)
    sweep.run(first[::-1])  # and now the source decides while the rest has gone
    last = len(sweep.before)
    for call in scenario.served:
        assert {(call, "source", 0), (call, "target", last)} <= sweep.worked, f"{call} is refused without need"


@pytest.mark.parametrize("name", ["bypass", "several limits"])
def test_a_node_that_never_had_the_slot_decides_the_same(slot: Slot, name: str) -> None:
    sweep = sweep_of(slot, SCENARIOS[name])
    sweep.calls = {call: sweep.calls[call] for call in ("check known", "check full", "check stranger")}
    sweep.run(decisive_first(sweep.before), cold=True)
    assert ("check known", "target", len(sweep.before)) in sweep.worked


def totals(client: redis.Redis, *names: str) -> dict[bytes, int]:
    """The counters of these hashes together."""
    found: dict[bytes, int] = {}
    for name in names:
        for field, value in cast("dict[bytes, bytes]", client.hgetall(name)).items():
            if field not in (b"_", b"id"):
                found[field] = found.get(field, 0) + int(value)
    return found


def try_at_both(slot: Slot, calls: Iterable[Call]) -> None:
    for call in calls:
        for side in SIDES:
            slot.ask(side, call)


def reply_to(slot: Slot, function: str, *words: Any) -> Any:
    """Of the target, to which the slot has moved."""
    found = slot.ask("target", Call(function, words))
    assert not found.refused, found.refused
    return found.reply


def at_each_boundary(slot: Slot, sweep: Sweep) -> Iterator[int]:
    """Half moved up to there; the next one begins with the first state."""
    order = decisive_first(sweep.before)
    for boundary in range(len(order) + 1):
        with slot.moving():
            slot.move(order[:boundary])
            yield boundary
        slot.restore(sweep.before, sweep.kept)


def test_what_was_tried_in_between_works_after_the_move(slot: Slot) -> None:
    sweep = sweep_of(slot, SCENARIOS["several limits"])
    known_before(slot, sweep)
    used = totals(slot.source, keys.usage(SHARD))
    for boundary in at_each_boundary(slot, sweep):
        names = (
            "flip",
            "delta",
            "bypass",
            "end bypass",
            "stage anew",
            "drain take",
            "calendars take",
            "calendars begin",
        )
        try_at_both(slot, [sweep.calls[name] for name in names])
        slot.complete()
        peek = sweep.calls["peek known"]
        assert slot.ask("target", peek) == sweep.right["peek known"].outcome, boundary
        image = {part: cast("Any", slot.target).hgetall(f"{PREFIX}:{part}") for part in "tc"}
        for part, fields in image.items():
            reply_to(slot, "publish", "STAGE", "v9", part, *(word for pair in fields.items() for word in pair))
        done = reply_to(slot, "publish", "FLIP", "v9", "99.final", len(image["t"]), len(image["c"]))
        assert done == [b"applied", b"99.final"]
        assert slot.ask("target", peek) == sweep.right["peek known"].outcome, boundary
        batch = reply_to(slot, "drain", "TAKE", "batch-9")
        assert totals(slot.target, keys.usage(SHARD), keys.usage_batch(SHARD)) == used
        assert reply_to(slot, "drain", "DONE", batch) == 1
        assert totals(slot.target, keys.usage(SHARD)) == {}


def test_batches_are_read_once_and_wholly_after_the_move(slot: Slot) -> None:
    sweep = sweep_of(slot, SCENARIOS["calendar quota"])
    waiting, since = totals(slot.source, keys.usage_batch(SHARD)), totals(slot.source, keys.usage(SHARD))
    read = sweep.calls["calendars read"]
    for _ in at_each_boundary(slot, sweep):
        try_at_both(slot, [sweep.calls["drain take"], sweep.calls["calendars take"]])
        slot.complete()
        for counters in (waiting, since):
            batch = reply_to(slot, "drain", "TAKE", "batch-9")
            assert totals(slot.target, keys.usage_batch(SHARD)) == counters
            assert reply_to(slot, "drain", "DONE", batch) == 1
        first = told(read, sweep.right["calendars read"].outcome.reply)
        # Since then only one of the two subjects was charged.
        for batch, expected in ((b"batch-1", first), (b"batch-9", [row for row in first if b"k_known" in row[0]])):
            assert reply_to(slot, "calendars", "TAKE", "batch-9") == batch
            assert told(read, reply_to(slot, "calendars", "READ", batch, "0")) == expected
            assert reply_to(slot, "calendars", "DONE", batch) == 1


def counted(client: redis.Redis) -> int:
    """Requests in the current counters, the older ones and the waiting batch."""
    names = (keys.usage(SHARD), keys.usage_batch(SHARD), f"{PREFIX}:uo")
    return sum(value % 2**24 for value in totals(client, *names).values())


def test_counters_that_nobody_drains_make_room_after_the_move(slot: Slot) -> None:
    """The check that finds them full has charged already, so nothing may stop it."""
    settings = {"usage_room": 10, "sample_per_1024": 0}
    Scenario((per_key("a", bucket()),), lambda _: {}, settings=settings).set_up(World(slot.source))
    minutes = iter(range(2, 1_000))

    def check(side: Side) -> int:
        """1 if it was acknowledged. Each is a minute later, so each has a counter of its own."""
        before = slot.state()
        found = slot.ask(side, Call("check", (TENANT, ENDPOINT, 1, *KNOWN), NOW_US + next(minutes) * 60 * SECOND_US))
        assert not found.refused or slot.state() == before
        return int(not found.refused)

    acknowledged = sum(check("source") for _ in range(40))
    order = slot.names(slot.source)
    assert {f"{PREFIX}:uo", keys.usage_batch(SHARD)} <= {*order}  # so the oldest would have to go
    dropped = acknowledged - counted(slot.source)
    with slot.moving():
        for boundary in range(len(order) + 1):
            acknowledged += sum(check(side) for side in SIDES for _ in range(12 if boundary in (0, len(order)) else 1))
            assert {*slot.names(slot.source), *slot.names(slot.target)} == {*order}
            slot.move(order[boundary : boundary + 1])
        slot.complete()
        assert acknowledged > 40
        assert acknowledged - counted(slot.target) == dropped
        assert check("target")
        assert counted(slot.target) < acknowledged - dropped


@pytest.fixture
def everyones_slot(cluster: SpareCluster) -> Iterator[Slot]:
    found = Slot(cluster, keys.ALL)
    yield found
    found.close()


@pytest.mark.parametrize("is_drained", [True, False])
def test_enforcers_and_observations_move_wholly(everyones_slot: Slot, is_drained: bool) -> None:
    slot = everyones_slot
    observe = Call("observe", (400, 2, "104:3,105:1", ENDPOINT))
    for call in (Call("heartbeat", ("a", "{}")), Call("heartbeat", ("b", "{}")), observe):
        assert not slot.ask("source", call).refused
    if is_drained:
        for call in (Call("drain", ("TAKE", "batch-1")), observe):
            assert not slot.ask("source", call).refused
    calls = {
        "beat": Call("heartbeat", ("a", '{"pid": 1}')),
        "beat of another": Call("heartbeat", ("c", "{}")),
        "beat when the others are forgotten": Call("heartbeat", ("c", "{}"), NOW_US + 700 * SECOND_US),
        "end": Call("heartbeat", ("a", "")),
        "observe": observe,
        "drain take": Call("drain", ("TAKE", "batch-2")),
        "drain done": Call("drain", ("DONE", "batch-1")),
        "drain done twice": Call("drain", ("DONE", "batch-0")),
    }
    sweep = Sweep(slot, calls)
    sweep.run(sorted(sweep.before))
    # There is no key of that very name, so the source sends everybody on.
    served = {"beat", "beat of another", "beat when the others are forgotten", "end", "observe"}
    assert {(name, "target", len(sweep.before)) for name in served} <= sweep.worked
