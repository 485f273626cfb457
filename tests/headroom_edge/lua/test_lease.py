"""hr_lease and hr_return: one decision with a block of units, settled exactly once."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import ResponseError

from headroom_edge import keys
from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.bucket import Gcra, LeakyBucket, TokenBucket
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from headroom_edge.algorithms.concurrency import Concurrency
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sliding_counter import SlidingCounter
from headroom_edge.algorithms.sliding_log import SlidingLog
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit, Override
from tests.headroom_edge.lua.leases import NOTHING, Block, Settlement, give_back, lease, spent
from tests.headroom_edge.lua.world import NOW_US, TENANT, World, tier_policy, times

WHOLE = Subject.parse("tenant")
SHARD = keys.shard_of(TENANT)
MS = 1_000

LEASED: list[Any] = [
    TokenBucket(1_000, SECOND_US, 1_000),
    TokenBucket(1_000, SECOND_US, 1_000, 300 * MS),
    Gcra(1_000, SECOND_US, 1_000),
    FixedWindow(1_000, SECOND_US),
    SlidingCounter(1_000, SECOND_US),
    SlidingLog(1_000, SECOND_US),
    CalendarQuota(1_000_000, "day", "UTC", ""),
]
by_name = pytest.mark.parametrize("algorithm", LEASED, ids=lambda one: f"{one.name}{getattr(one, 'max_wait_us', '')}")


def limited(algorithm: Any, **options: Any) -> Limit:
    return Limit("a", algorithm, WHOLE, **options)


@by_name
def test_a_lease_decides_and_grants_a_block(world: World, algorithm: Any) -> None:
    world.limit_by(limited(algorithm))
    reply, block = lease(world)
    assert (reply.allowed, reply.remaining) == (True, algorithm.limit - 1 if hasattr(algorithm, "limit") else 999)
    assert (block.calls, block.cost, block.lasts_us) == (100, 100, 100 * MS)


@by_name
def test_units_that_come_back_can_be_used_again(world: World, algorithm: Any) -> None:
    world.limit_by(limited(algorithm))
    _, block = lease(world)
    left = world.peek(NOW_US + MS).remaining
    assert give_back(world, NOW_US + MS, spent(block, 40)) == 1
    assert world.peek(NOW_US + MS).remaining == left + 60
