"""Random histories of one subject: several processes lease, spend, renew, give back and crash; others ask directly."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import redis

from headroom_edge import keys
from headroom_edge.algorithms.base import SECOND_US, Algorithm
from headroom_edge.algorithms.bucket import Gcra, TokenBucket
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sliding_counter import SlidingCounter
from headroom_edge.algorithms.sliding_log import SlidingLog
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit
from tests.headroom_edge.lua.lease_truth import Truth, truth_of
from tests.headroom_edge.lua.world import NOW_US, TENANT, World

ENDPOINT = "rides:search"
AT_ONCE = 10  # scenarios that advance side by side, so that a pipeline carries their calls
MIDNIGHT_US = NOW_US - NOW_US % (86_400 * SECOND_US) + 86_400 * SECOND_US

NOTHING = (0, 0, 0, 0, "")  # to settle

Call = tuple[str, int, tuple[Any, ...]]  # function, time, words after the endpoint
Play = Generator[Call, Any, None]


def bucket(chance: Random) -> Algorithm:
    rate, size = chance.choice([333, 1_000, 5_000, 20_000]), chance.choice([64, 200, 1_000])
    return TokenBucket(rate, SECOND_US, size, chance.choice([0, 0, 40_000]))


def meter(chance: Random) -> Algorithm:
    return Gcra(chance.choice([100, 999, 3_000]), SECOND_US, chance.choice([40, 150, 600]))


def window(chance: Random) -> Algorithm:
    return FixedWindow(chance.choice([64, 200, 1_000]), chance.choice([40_000, 250_000, SECOND_US]))


def counter(chance: Random) -> Algorithm:
    return SlidingCounter(chance.choice([64, 200, 1_000]), chance.choice([40_000, 250_000, SECOND_US]))


def log(chance: Random) -> Algorithm:
    return SlidingLog(chance.choice([40, 100, 250]), chance.choice([40_000, 250_000, SECOND_US]))


def calendar(chance: Random) -> Algorithm:
    quota = CalendarQuota(chance.choice([9_000, 30_000]), "day", "UTC", "")
    day_s = MIDNIGHT_US // SECOND_US
    return quota.on(tuple(day_s + days * 86_400 for days in range(-2, 3)))


KINDS: dict[str, Callable[[Random], Algorithm]] = {
    "token_bucket": bucket,
    "gcra": meter,
    "fixed_window": window,
    "sliding_counter": counter,
    "sliding_log": log,
    "calendar_quota": calendar,
}


@dataclass(slots=True)
class Held:
    receipt: str
    granted: int
    left: int
    end_us: int


class Scenario:
    """Every request of a block costs 1; direct ones cost what they like."""

    steps = (0, 0, 1, 7, 500, 3_000, 20_000, 60_000, 100_000, 400_000)

    def __init__(self, algorithm: Algorithm, chance: Random, start_us: int) -> None:
        self.chance, self.capacity = chance, algorithm.capacity
        self.truth: Truth = truth_of(algorithm)
        self.now_us = start_us
        self.blocks: list[Held] = []
        self.leased = 0  # units that were spent out of blocks

    def play(self) -> Play:
        often = (self._ask, self._renew, self._renew, self._spend, self._spend, self._return)
        acts = (*often, self._fill, self._exhaust, self._overlap, self._overlap)
        while True:
            self.now_us += self.chance.choice(self.steps)
            yield from self.chance.choice(acts)()

    def _ask(self) -> Play:
        yield from self._check(self.chance.randint(1, max(1, self.capacity // 8)))

    def _fill(self) -> Play:
        """Takes all that is left, in a few requests."""
        cost = self.capacity
        while cost:
            if not (yield from self._check(cost)):
                cost //= 2

    def _check(self, cost: int) -> Generator[Call, Any, bool]:
        reply = yield "check", self.now_us, (cost,)
        return self._decided(reply, cost)

    def _decided(self, reply: list[Any], cost: int) -> bool:
        if reply[0]:
            self.truth.serve(self.now_us, cost)
        return bool(reply[0])

    def _renew(self) -> Play:
        """A new block, often in place of an old one; what it had left comes back, or is lost with the process."""
        old = self._pick() if self.chance.random() < 0.6 else None
        yield from self._lease(self._settle(old) if old and self.chance.random() < 0.8 else NOTHING)

    def _overlap(self) -> Play:
        """Leases out of an idle limit; meanwhile the oldest come back, so that later charges lose their base."""
        self.now_us += SECOND_US
        for _ in range(self.chance.randint(3, 7)):
            self.now_us += self.chance.choice(self.steps[:-2])
            if self.chance.random() < 0.5:
                yield from self._return(0)
            else:
                yield from self._lease(NOTHING)
        yield from self._exhaust()

    def _lease(self, settle: tuple[Any, ...]) -> Play:
        want = self.chance.choice([8, 20, self.capacity, self.capacity])
        longest_ms = self.chance.choice([1, 10, 60, 1_000])
        reply = yield "lease", self.now_us, (1, want, want, longest_ms, *settle)
        self._decided(reply, 1)
        granted, _, lasts_us, receipt, _ = reply[-1]
        if granted:
            self.blocks.append(Held(receipt.decode(), granted, granted, self.now_us + lasts_us))

    def _return(self, index: int | None = None) -> Play:
        if block := self._pick(index):
            settle = self._settle(block)
            yield "return", self.now_us, settle
            if self.chance.random() < 0.3:  # the reply was lost
                yield "return", self.now_us, settle

    def _pick(self, index: int | None = None) -> Held | None:
        if not self.blocks:
            return None
        return self.blocks.pop(self.chance.randrange(len(self.blocks)) if index is None else index)

    def _settle(self, block: Held) -> tuple[Any, ...]:
        spent, back = block.granted - block.left, block.left if self.chance.random() < 0.9 else 0
        return (spent, spent, back, back, block.receipt)

    def _spend(self) -> Play:
        """Now, or at the last moment; some or all."""
        alive = [block for block in self.blocks if block.end_us >= self.now_us and block.left]
        if alive:
            block = self.chance.choice(alive)
            if self.chance.random() < 0.5:
                self.now_us = block.end_us
            self._take(block, self.chance.choice([1, block.left, block.left]))
        yield from ()

    def _exhaust(self) -> Play:
        """All that live blocks still have, each at its last moment, and then all that direct requests can get."""
        for block in sorted(self.blocks, key=lambda one: one.end_us):
            if block.end_us >= self.now_us:
                self.now_us = block.end_us
                self._take(block, block.left)
        yield from self._fill()

    def _take(self, block: Held, units: int) -> None:
        block.left -= units
        self.leased += units
        self.truth.serve(self.now_us, units)


def prepared(client: redis.Redis, source: str) -> World:
    """A world whose keys expire by no clock (the server is in import mode), with this library."""
    execute: Any = client.execute_command
    execute("CLIENT", "IMPORT-SOURCE", "ON")
    client.flushall()
    world = World(client, settings={"subject_cap": 10**9, "sample_per_1024": 0})
    client.function_load(source, replace=True)
    return world


def run(world: World, kind: str, seeds: range, operations: int) -> int:
    """Returns how many units were spent out of blocks. Raises OvershootError."""
    leased = 0
    for first in range(seeds.start, seeds.stop, AT_ONCE):
        chance = Random(f"{kind} {first}")
        algorithm = KINDS[kind](chance)
        lease_ms = chance.choice([None, 10, 400, 1_000])
        world.limit_by(Limit("a", algorithm, Subject.parse("user"), unit="cost", lease_ms=lease_ms))
        start_us = (MIDNIGHT_US - 3 * SECOND_US) if kind == "calendar_quota" else NOW_US
        scenarios = {
            seed: Scenario(algorithm, Random(f"{kind} {seed} {seeds}"), start_us)
            for seed in range(first, min(first + AT_ONCE, seeds.stop))
        }
        _advance(world, scenarios, operations)
        leased += sum(scenario.leased for scenario in scenarios.values())
    return leased


def _advance(world: World, scenarios: dict[int, Scenario], operations: int) -> None:
    plays = {seed: scenario.play() for seed, scenario in scenarios.items()}
    calls = {seed: next(play) for seed, play in plays.items()}
    for _ in range(operations):
        replies = _ask(world, calls)
        calls = {seed: plays[seed].send(reply) for seed, reply in zip(calls, replies, strict=True)}


def _ask(world: World, calls: dict[int, Call]) -> Iterator[Any]:
    prefix = keys.tenant_prefix(TENANT)
    with world.client.pipeline(transaction=False) as pipe:
        for seed, (function, now_us, words) in calls.items():
            pipe.fcall(f"hs_{function}", 1, prefix, now_us, TENANT, ENDPOINT, *words, "user", f"u{seed}")
        yield from pipe.execute()
