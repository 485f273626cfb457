"""Equal processes get equal shares of a limit through their leases, also when they want more than it allows."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heapreplace
from random import Random
from typing import Any

import pytest

from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.bucket import TokenBucket
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sliding_counter import SlidingCounter
from tests.headroom_edge.lua.leases import NOTHING, Block, Settlement, lease
from tests.headroom_edge.lua.test_lease import limited
from tests.headroom_edge.lua.world import NOW_US, World

PROCESSES, SECONDS = 6, 10
LEAST_WANT, DENIAL_US = 16, 20_000


@dataclass(slots=True)
class Process:
    """Renews a block when it is used up or over; wants as much as it used, and twice that if it was too little."""

    passed: int = 0
    calls: int = 0
    spent: int = 0
    want: int = LEAST_WANT
    end_us: int = 0
    quiet_until_us: int = 0
    block: Block | None = None

    def serve(self, world: World, now_us: int) -> None:
        if self.block and self.spent < self.block.calls and now_us < self.end_us:
            self.spent += 1
            self.passed += 1
        elif now_us >= self.quiet_until_us:
            self._ask(world, now_us)

    def _ask(self, world: World, now_us: int) -> None:
        settle = NOTHING
        if self.block and self.block.receipt:
            left = self.block.calls - self.spent
            settle = Settlement(self.block.receipt, self.spent, self.spent, left, left)
            self.want = max(LEAST_WANT, self.spent * (1 if left else 2))
        reply, self.block = lease(world, now_us, self.want, settle)
        self.spent, self.end_us, self.calls = 0, now_us + self.block.lasts_us, self.calls + 1
        self.passed += reply.allowed
        if not reply.allowed:
            self.quiet_until_us = now_us + max(reply.retry_us, DENIAL_US)


def share(world: World, per_second: int) -> list[Process]:
    chance = Random(7)
    processes = [Process() for _ in range(PROCESSES)]
    due = [(NOW_US + chance.randrange(1_000), number) for number in range(PROCESSES)]
    heapify(due)
    while due[0][0] < NOW_US + SECONDS * SECOND_US:
        now_us, number = due[0]
        processes[number].serve(world, now_us)
        gap_us = int(chance.expovariate(per_second / PROCESSES / SECOND_US))
        heapreplace(due, (now_us + gap_us, number))
    return processes


BUCKET, WINDOW = TokenBucket(1_000, SECOND_US, 1_000), FixedWindow(1_000, SECOND_US)
COUNTER = SlidingCounter(1_000, SECOND_US)


def are_equal(processes: list[Process]) -> bool:
    passed = [process.passed for process in processes]
    return min(passed) > 0.8 * max(passed)


@pytest.mark.parametrize("algorithm", [BUCKET, WINDOW, COUNTER], ids=lambda one: one.name)
def test_below_a_limit_equal_processes_get_the_same_with_few_calls(world: World, algorithm: Any) -> None:
    world.limit_by(limited(algorithm))
    processes = share(world, 700)
    assert are_equal(processes)
    assert sum(process.calls for process in processes) < 0.2 * sum(process.passed for process in processes)


@pytest.mark.parametrize(
    "algorithm",
    [WINDOW, pytest.param(BUCKET, marks=pytest.mark.sweep), pytest.param(COUNTER, marks=pytest.mark.sweep)],
    ids=lambda one: one.name,
)
@pytest.mark.timeout(300)
def test_above_a_limit_equal_processes_get_the_same_and_little_is_idle(world: World, algorithm: Any) -> None:
    world.limit_by(limited(algorithm))
    processes = share(world, 3_000)
    assert are_equal(processes)
    assert sum(process.passed for process in processes) > 0.95 * SECONDS * 1_000
