"""Parameters that go from A to B and back to A: what was used under the first A, and by whom it is still known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headroom_edge.algorithms.base import SECOND_US, Algorithm
from headroom_edge.algorithms.bucket import TokenBucket
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sliding_counter import SlidingCounter
from headroom_edge.algorithms.sliding_log import SlidingLog
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Carry, Generation, Limit, repeat_tags
from tests.headroom_edge.lua.world import NOW_US, World

HOUR_US = 3_600 * SECOND_US
PAIRS: list[tuple[Algorithm, Algorithm]] = [
    (TokenBucket(10, HOUR_US, 10), TokenBucket(20, HOUR_US, 20)),
    (FixedWindow(10, HOUR_US), FixedWindow(20, HOUR_US)),
    (SlidingCounter(10, HOUR_US), SlidingCounter(20, HOUR_US)),
    (SlidingLog(10, HOUR_US), SlidingLog(20, HOUR_US)),
]


def changed(limit: Limit, algorithm: Algorithm, since_us: int, carry: Carry) -> Limit:
    past = (Generation(limit.algorithm, limit.since_us, limit.carry), *limit.past)
    return replace(limit, algorithm=algorithm, since_us=since_us, carry=carry, past=past)


def first(algorithm: Algorithm) -> Limit:
    return Limit("ten", algorithm, Subject.parse("user"), "cost")


def left(world: World, limit: Limit, now_us: int, user: str = "idle") -> int:
    world.limit_by(limit, now_us=NOW_US)
    return int(world.peek(now_us, user=user, cost=1, rows=True).rows[0][4]) + 1


@pytest.mark.parametrize(("a", "b"), PAIRS)
@pytest.mark.parametrize(("there", "back"), [("reset", "reset"), ("reset", "keep"), ("keep", "reset")])
def test_a_reset_on_the_way_reaches_who_was_idle(
    world: World, a: Algorithm, b: Algorithm, there: Carry, back: Carry
) -> None:
    limit = first(a)
    world.limit_by(limit)
    world.check(NOW_US, cost=7, user="idle")
    limit = changed(changed(limit, b, NOW_US + 1, there), a, NOW_US + 2, back)
    assert left(world, limit, NOW_US + 3) == 10


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_without_a_reset_what_was_used_stays_used(world: World, a: Algorithm, b: Algorithm) -> None:
    limit = first(a)
    world.limit_by(limit)
    world.check(NOW_US, cost=7, user="idle")
    limit = changed(changed(limit, b, NOW_US + 1, "keep"), a, NOW_US + 2, "keep")
    assert left(world, limit, NOW_US + 3) == 3


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_what_is_used_after_the_return_stays_used_when_the_past_is_forgotten(
    world: World, a: Algorithm, b: Algorithm
) -> None:
    limit = changed(changed(first(a), b, NOW_US + 1, "reset"), a, NOW_US + 2, "reset")
    world.limit_by(limit)
    world.check(NOW_US + 3, cost=7, user="idle")
    assert left(world, limit, NOW_US + 4) == 3
    assert left(world, replace(limit, past=limit.past[:1]), NOW_US + 4) == 3
    assert left(world, first(a), NOW_US + 4) == 3
    later = changed(replace(limit, past=()), b, NOW_US + 5, "keep")
    assert left(world, later, NOW_US + 6) == 13


def test_every_return_over_a_reset_has_a_turn_of_its_own() -> None:
    a, b = PAIRS[0]
    limit = first(a)
    for step in range(8):
        limit = changed(limit, (b, a)[step % 2], 8 * (step + 1), "reset")
    told = repeat_tags((Generation(limit.algorithm, limit.since_us, limit.carry), *limit.past))
    assert len(set(told[::2])) == len(told[::2]) == 5
    assert told[-1] == told[-2] == 0
