"""Adaptive concurrency in Lua: what counts as a sample, what is written, and how long it is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import redis

from headroom_edge.algorithms.adaptive_concurrency import DEFAULT_TARGET_US, WINDOW_US, AdaptiveConcurrency
from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.bucket import LeakyBucket
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Generation, Limit
from tests.headroom_edge.lua.world import NOW_US, World, tier_policy

ENDPOINT = "rides:search"
ALGORITHM = AdaptiveConcurrency(2, 100, 20, 50_000, 10 * SECOND_US)
LIMIT = Limit("db", ALGORITHM, Subject.parse("tenant"))


def take(world: World, count: int, now_us: int = NOW_US) -> list[str]:
    holders = [f"{now_us}-{number}" for number in range(count)]
    for holder in holders:
        assert world.check(now_us, holder=holder).allowed
    return holders


def release(world: World, holder: str, *result: str, now_us: int) -> int:
    released: int = world.ask("release", now_us, ENDPOINT, holder, *result)
    return released


def live(world: World, now_us: int, *subject: str) -> list[Any]:
    (row,) = world.ask("live", now_us, ENDPOINT, *subject)
    return [value.decode() if isinstance(value, bytes) else value for value in row]


def answered(world: World, result: str = "ok", count: int = 20, ms: int = 100) -> int:
    """Requests that end after so many milliseconds. Returns when their window is over."""
    end_us = NOW_US + ms * 1_000
    for holder in take(world, count):
        assert release(world, holder, *([result] if result else []), now_us=end_us) > 0
    return end_us + WINDOW_US


def test_slow_answers_lower_the_live_limit_which_is_the_quota(world: World) -> None:
    world.limit_by(LIMIT)
    assert live(world, NOW_US) == ["db", "concurrency", 20, 2, 100, "at its start", 50_000, 0]
    later_us = answered(world, ms=100)
    assert live(world, later_us)[2:6] == [10, 2, 100, "lowered: answers are slower than the target"]
    reply = world.check(later_us, holder="h", rows=True)
    assert (reply.quota, reply.remaining) == (10, 9)
    assert reply.rows[0][:5] == ("db", 1, 10, 0, 9)


def test_fast_answers_raise_it(world: World) -> None:
    world.limit_by(LIMIT)
    assert live(world, answered(world, ms=10))[2] == 22


def test_drops_lower_it(world: World) -> None:
    world.limit_by(LIMIT)
    later_us = answered(world, "drop")
    assert live(world, later_us)[2::3][:2] == [10, "lowered: the service refused or timed out"]


@pytest.mark.parametrize("result", ["", "ignore"])
def test_without_a_result_nothing_is_learned_and_nothing_written(world: World, result: str) -> None:
    """Clients from before this limit release without one."""
    world.limit_by(LIMIT)
    (holder,) = take(world, 1)
    before = {key: value for key, value in world.state().items() if b":h:" not in key}
    assert release(world, holder, *([result] if result else []), now_us=NOW_US + 5_000_000) == 1
    assert world.state() == before
    assert live(world, answered(world, result, ms=5_000))[2] == 20


def test_a_release_needs_a_known_result(world: World) -> None:
    world.limit_by(LIMIT)
    with pytest.raises(redis.ResponseError, match="HRARGS"):
        release(world, "h", "fine", now_us=NOW_US)
    with pytest.raises(redis.ResponseError, match="HRARGS"):
        world.ask("release", NOW_US, ENDPOINT)


def test_a_result_and_a_subject_go_together(world: World) -> None:
    world.limit_by(replace(LIMIT, subject=Subject.parse("user")))
    for number in range(20):
        world.check(holder=f"h{number}", user="7")
    for number in range(20):
        assert world.ask("release", NOW_US + 100_000, ENDPOINT, f"h{number}", "ok", "user", "7") == 1
    later_us = NOW_US + 100_000 + WINDOW_US
    assert live(world, later_us, "user", "7")[2] == 10
    assert live(world, later_us, "user", "8")[2] == 20


def test_a_holder_that_is_released_twice_counts_once(world: World) -> None:
    world.limit_by(LIMIT)
    holders = take(world, 9)
    released = [release(world, holder, "ok", now_us=NOW_US + 100_000) for holder in holders * 3]
    assert released == [1] * 9 + [0] * 18
    assert live(world, NOW_US + 100_000 + WINDOW_US)[2] == 20  # ten would have been enough


def test_a_holder_that_has_expired_is_no_sample(world: World) -> None:
    world.limit_by(LIMIT)
    for holder in take(world, 20):
        release(world, holder, "drop", now_us=NOW_US + 10 * SECOND_US)
    assert live(world, NOW_US + 11 * SECOND_US)[2] == 20


def test_the_wait_for_a_turn_is_not_latency(world: World) -> None:
    world.limit_by(LIMIT, Limit("shape", LeakyBucket(1, SECOND_US, 100), Subject.parse("tenant")))
    for number in range(12):
        reply = world.check(holder=f"h{number}")
        assert release(world, f"h{number}", "ok", now_us=NOW_US + reply.wait_us + 10_000) == 1
    assert live(world, NOW_US + 12 * SECOND_US)[5] != "lowered: answers are slower than the target"


def test_a_holder_from_before_a_longer_hold_is_no_sample(world: World) -> None:
    world.limit_by(LIMIT)
    holders = take(world, 20)
    longer = replace(ALGORITHM, hold_us=60 * SECOND_US)
    changed_us = NOW_US + 1_000
    world.limit_by(replace(LIMIT, algorithm=longer, since_us=changed_us, past=(Generation(ALGORITHM),)))
    for holder in holders:
        assert release(world, holder, "ok", now_us=changed_us + 1_000) == 1
    assert live(world, changed_us + WINDOW_US)[2] == 20


def test_a_change_of_bounds_keeps_the_live_limit(world: World) -> None:
    world.limit_by(LIMIT)
    later_us = answered(world)
    world.check(later_us, holder="h")  # the window that is over counts with the next request
    wider = replace(ALGORITHM, most=200, start=150)
    world.limit_by(replace(LIMIT, algorithm=wider, since_us=later_us, past=(Generation(ALGORITHM),)))
    assert live(world, later_us)[2:5] == [10, 2, 200]
    assert world.check(later_us, holder="h").quota == 10


def test_a_denied_request_changes_nothing(world: World) -> None:
    world.limit_by(LIMIT)
    take(world, 20)
    before = world.state()
    for step in (0, WINDOW_US, SECOND_US):
        reply = world.check(NOW_US + step, holder="late")
        assert (reply.allowed, reply.reason, reply.limit, reply.retry_us) == (False, "limit", "db", SECOND_US)
    assert world.state() == before
    assert world.peek(NOW_US, holder="late").allowed is False
    assert world.state() == before


def test_the_live_limit_outlives_a_minute_without_requests(world: World) -> None:
    world.limit_by(LIMIT)
    before_ms = world.store_ms()
    answered(world)
    took_ms = world.store_ms() - before_ms
    expiries = world.lifetimes(before_ms).values()
    assert expiries
    assert all(60_000 <= lifetime <= 60_000 + took_ms for lifetime in expiries)


def test_a_shadow_limit_adapts_and_denies_nobody(world: World) -> None:
    world.limit_by(replace(LIMIT, mode="shadow"))
    later_us = answered(world)
    assert live(world, later_us)[2] == 10
    assert all(world.check(later_us, holder=f"s{number}").allowed for number in range(30))


def test_a_candidate_learns_beside_the_limit_but_is_not_told(world: World) -> None:
    candidate = replace(ALGORITHM, start=10, target_us=200_000)
    world.limit_by(replace(LIMIT, candidate=candidate))
    assert live(world, answered(world))[2] == 10


def test_a_reset_starts_it_anew(world: World) -> None:
    world.limit_by(LIMIT)
    later_us = answered(world)
    assert world.ask("reset", later_us, ENDPOINT, "db") == 1
    assert live(world, later_us)[2] == 20


def test_a_calibrated_target_is_the_endpoints_and_its_change_keeps_the_live_limit(world: World) -> None:
    calibrated = replace(LIMIT, algorithm=replace(ALGORITHM, target_us=None))
    policy = tier_policy(calibrated, endpoint=ENDPOINT)
    world.configure(policy)
    assert live(world, NOW_US)[6] == DEFAULT_TARGET_US
    later_us = answered(world, ms=3_000)
    assert live(world, later_us)[2] == 10
    world.targets = {ENDPOINT: 80_000}
    world.configure(policy)
    assert live(world, later_us)[2::4] == [10, 80_000]
