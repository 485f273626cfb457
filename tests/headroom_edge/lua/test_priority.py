"""Priorities in the store: how far each class fills a pool, who can lower it, and what is no priority."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import redis

from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.plan.priority import FILLS, PRIORITIES, Priority
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit, Tenant
from tests.headroom_edge.lua.sharing import pool, share
from tests.headroom_edge.lua.world import NOW_US, TENANT, TIER, World

ENDPOINTS = {priority: f"{priority}:call" for priority in PRIORITIES}


@pytest.fixture
def ranked(world: World) -> World:
    """An endpoint for each priority."""
    world.endpoints = tuple(ENDPOINTS.values())
    world.priorities = {endpoint: priority for priority, endpoint in ENDPOINTS.items()}
    return world


def filled(world: World, endpoint: str, now_us: int = NOW_US, **dimensions: Any) -> int:
    """How many requests are admitted at one moment, until one is denied."""
    count = 0
    while world.check(now_us, endpoint=endpoint, **dimensions).allowed:
        count += 1
    return count


@pytest.mark.parametrize("priority", PRIORITIES)
def test_each_class_fills_a_pool_to_its_level(ranked: World, priority: Priority) -> None:
    ranked.limit_by(pool(burst=200, reserve=40))
    assert filled(ranked, ENDPOINTS[priority]) == 160 * FILLS[priority] // 100


def test_a_full_pool_sheds_from_the_bottom(ranked: World) -> None:
    ranked.limit_by(pool(burst=100))
    assert [filled(ranked, ENDPOINTS[p]) for p in ("sheddable", "normal", "high", "critical")] == [50, 25, 15, 10]
    # 10/s refill the pool: after a second, only the most important find room.
    later = NOW_US + SECOND_US
    assert [filled(ranked, ENDPOINTS[p], later) for p in ("sheddable", "normal", "high", "critical")] == [0, 0, 0, 10]


def test_a_caller_lowers_its_priority_but_cannot_raise_it(ranked: World) -> None:
    for number, asked in enumerate(PRIORITIES):
        for own in PRIORITIES:
            ranked.limit_by(pool(rate=10 + PRIORITIES.index(own) + 4 * number, burst=100))
            found = PRIORITIES[max(PRIORITIES.index(own), number)]
            assert filled(ranked, ENDPOINTS[own], priority=asked) == FILLS[found], (own, asked)
            ranked.client.flushdb()


def test_a_tier_and_a_tenant_lower_it(ranked: World) -> None:
    ranked.tier_priority = "high"
    ranked.tenants = {TENANT: Tenant(1, TENANT, TIER), "bolt": Tenant(2, "bolt", TIER, priority="sheddable")}
    ranked.limit_by(pool(burst=100))
    critical = ENDPOINTS["critical"]
    assert filled(ranked, critical) == 90
    count = 0
    while ranked.check(endpoint=critical, tenant="bolt", priority="critical").allowed:
        count += 1
    assert count == 50


@pytest.mark.parametrize("word", ["", "urgent", "Critical", "1", "critical ", "high\0"])
def test_what_is_no_priority_is_an_error_and_charges_nothing(ranked: World, word: str) -> None:
    ranked.limit_by(pool(burst=100))
    for function in ("check", "peek"):
        with pytest.raises(redis.ResponseError, match="HRARGS priority must be critical, high, normal or sheddable"):
            ranked.check(endpoint=ENDPOINTS["critical"], function=function, priority=word)
    assert not ranked.state()


def test_a_plan_without_a_pool_ignores_it(world: World) -> None:
    bucket = replace(pool(), algorithm=Pool(10, SECOND_US, 20).bucket, name="burst")
    world.limit_by(bucket)
    assert world.check(priority="sheddable").remaining == 19
    assert world.check(priority="whatever").remaining == 18


def test_a_priority_comes_on_top_of_all_dimensions(ranked: World) -> None:
    ranked.limit_by(pool(burst=100), share(subject="d0"))
    dimensions: dict[str, Any] = {f"d{number}": "x" for number in range(31)}
    assert ranked.check(endpoint=ENDPOINTS["high"], holder="me", priority="high", **dimensions).allowed
    with pytest.raises(redis.ResponseError, match="at most 32 pairs"):
        ranked.check(endpoint=ENDPOINTS["high"], holder="me", d31="x", priority="high", **dimensions)


def test_own_shares_may_use_the_whole_pool_whatever_their_class(ranked: World) -> None:
    own = Limit("team", Borrowing(10, SECOND_US, 30, None, None, 0, "org", None), Subject.parse("team"))
    ranked.limit_by(pool(rate=100, burst=100), own)
    # Each has its own 30. The first borrows to the level of its class; what the others own takes the pool above it.
    assert [filled(ranked, ENDPOINTS["sheddable"], team=team) for team in "abc"] == [50, 30, 20]


def test_a_lease_is_asked_for_with_a_priority_and_gets_no_block(ranked: World) -> None:
    ranked.limit_by(pool(burst=100))
    nothing = (0, 0, 0, 0, "")
    for _ in range(50):
        reply = ranked.ask("lease", NOW_US, ENDPOINTS["critical"], 1, 10, 10, 100, *nothing, "priority", "sheddable")
        assert reply[0] == 1
        assert reply[-1][:3] == [0, 0, -1]
    reply = ranked.ask("lease", NOW_US, ENDPOINTS["critical"], 1, 10, 10, 100, *nothing, "priority", "sheddable")
    assert reply[0] == 0
    with pytest.raises(redis.ResponseError, match="HRARGS priority"):
        ranked.ask("lease", NOW_US, ENDPOINTS["critical"], 1, 10, 10, 100, *nothing, "priority", "urgent")
