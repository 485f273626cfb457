"""F11 and F12: the store's clock jumps by an hour, forth and back; numbers at the ends of their ranges stay exact."""

from __future__ import annotations

from fractions import Fraction

import pytest

from headroom_edge.algorithms.base import SECOND_US, Algorithm
from headroom_edge.algorithms.bucket import Gcra, LeakyBucket, TokenBucket
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sliding_counter import SlidingCounter
from headroom_edge.algorithms.sliding_log import SlidingLog
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit
from tests.headroom_edge.lua.world import NOW_US, World

MINUTE_US, HOUR_US = 60 * SECOND_US, 3_600 * SECOND_US
YEAR_2100_US = 4_102_444_800 * SECOND_US
MOST_COST = 10**9
SIZE = 10


def kinds(per_us: int) -> list[Algorithm]:
    """Each lets ten through at once, and ten in every such time."""
    return [
        TokenBucket(SIZE, per_us, SIZE),
        Gcra(SIZE, per_us, SIZE),
        LeakyBucket(SIZE, per_us, SIZE),
        FixedWindow(SIZE, per_us),
        SlidingCounter(SIZE, per_us),
        SlidingLog(SIZE, per_us),
    ]


def limit_by(world: World, algorithm: Algorithm) -> None:
    world.limit_by(Limit("ten", algorithm, Subject.parse("tenant"), "cost"))


def passed(world: World, now_us: int, requests: int = SIZE + 5) -> int:
    return sum(world.check(now_us).allowed for _ in range(requests))


@pytest.mark.parametrize("algorithm", kinds(HOUR_US), ids=lambda a: a.name)
@pytest.mark.parametrize("jump_us", [HOUR_US, -HOUR_US], ids=["forth and back", "back and forth"])
def test_jumps_admit_no_more_than_the_clocks_forward_travel_earns(
    world: World, algorithm: Algorithm, jump_us: int
) -> None:
    limit_by(world, algorithm)
    admitted = forward_us = 0
    before_us = NOW_US
    for step in range(8):
        now_us = NOW_US + (jump_us if step % 2 else 0)
        forward_us += max(0, now_us - before_us)
        before_us = now_us
        admitted += passed(world, now_us)
        assert admitted <= SIZE + SIZE * forward_us // HOUR_US


@pytest.mark.parametrize("algorithm", kinds(MINUTE_US), ids=lambda a: a.name)
def test_a_clock_that_went_back_locks_nobody_out_for_more_than_a_window(world: World, algorithm: Algorithm) -> None:
    limit_by(world, algorithm)
    assert passed(world, NOW_US + HOUR_US) == SIZE
    passed(world, NOW_US)
    # A counter that slides has room for one more when a tenth of the full window has left it.
    assert passed(world, NOW_US + MINUTE_US + MINUTE_US // SIZE) > 0


@pytest.mark.parametrize("now_us", [0, NOW_US, YEAR_2100_US, 2**53 - 10**12])
@pytest.mark.parametrize("rate", [3, 7, 3_001, 999_983])
def test_a_bucket_is_exact_against_fractions_to_the_year_2100(world: World, now_us: int, rate: int) -> None:
    """Costs and times that no whole number of microseconds fits."""
    limit_by(world, TokenBucket(rate, SECOND_US, 2 * rate))
    interval, tat = Fraction(SECOND_US, rate), Fraction(now_us)
    at_us = now_us
    for step in range(60):
        at_us += (step * 7_919) % 50_021
        cost = 1 + (step * 31) % max(2, rate // 3)
        after = max(tat, Fraction(at_us)) + cost * interval
        fits = after - at_us <= 2 * rate * interval
        reply = world.check(at_us, cost)
        assert reply.allowed == fits
        if fits:
            tat = after
            assert reply.remaining == (2 * rate * interval - (tat - at_us)) // interval


@pytest.mark.parametrize("now_us", [YEAR_2100_US, 2**53 - 10**12])
def test_counters_stay_exact_up_to_the_largest_limits(world: World, now_us: int) -> None:
    most = 2**52
    limit_by(world, FixedWindow(most, 10**15))
    used = 0
    for cost in (MOST_COST, MOST_COST - 1, 7, 1):
        used += cost
        assert world.check(now_us, cost).remaining == most - used


@pytest.mark.parametrize("algorithm", kinds(MINUTE_US), ids=lambda a: a.name)
def test_after_every_jump_each_state_key_has_a_ttl(world: World, algorithm: Algorithm) -> None:
    limit_by(world, algorithm)
    for now_us in (NOW_US, NOW_US + HOUR_US, NOW_US - HOUR_US, YEAR_2100_US):
        world.check(now_us)
        assert world.state()
        assert all(world.client.pttl(key) > 0 for key in world.state())
