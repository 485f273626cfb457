"""F20: Postgres is away for very long. Redis keeps what it has room for, drops the oldest, and the gap is on record."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import redis

from headroom_edge import keys
from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.bucket import TokenBucket
from headroom_edge.plan.subject import Subject
from quotas.models.usage import BEGINNING, DrainState, GapRecord
from quotas.policies.configuration import configuration_load
from quotas.policies.spec import Limit
from quotas.usage.drain import DROPPED, drain
from tests.headroom_edge.lua.world import TENANT, World
from tests.quotas.usage.counters import in_postgres

pytestmark = pytest.mark.django_db

MINUTE_US = 60 * SECOND_US
ROOM = 10
SHARD = keys.shard_of(TENANT)


@pytest.fixture
def world(valkey: redis.Redis) -> World:
    world = World(valkey, settings={"usage_room": ROOM})
    world.limit_by(Limit("a", TokenBucket(1000, SECOND_US, 1000), Subject.parse("tenant")))
    return world


def minutes(world: World, count: int, *, ago: int = 0) -> list[int]:
    """One request a minute, up to so many minutes ago, that nobody drains; when they were."""
    now_us = int(world.client.time()[0]) * SECOND_US - ago * MINUTE_US
    times = [now_us - (count - step) * MINUTE_US for step in range(count)]
    for at_us in times:
        assert world.check(at_us).allowed
    return times


def held(world: World) -> int:
    """Counters in Redis."""
    execute: Any = world.client.execute_command
    found = [name for key in execute("KEYS", f"hr:{{{SHARD}}}:u*") if execute("TYPE", key) == b"hash"
             and not key.endswith(b":ue") for name in execute("HKEYS", key)]  # fmt: skip
    return sum(name[:1] in b"sm" for name in found)


def drain_all(server: redis.Redis) -> None:
    for _ in range(4):
        drain(server)


def dropped() -> list[GapRecord]:
    return list(GapRecord.objects.filter(reason=DROPPED))


def test_what_there_is_room_for_is_kept_whole(world: World) -> None:
    minutes(world, 25)
    assert held(world) == 25
    drain_all(world.client)
    assert (in_postgres().total(), held(world), dropped()) == (25, 0, [])


def test_beyond_that_the_oldest_is_dropped_and_a_gap(world: World) -> None:
    drained_at = drain(world.client).at - timedelta(hours=3)
    DrainState.objects.update(drained_at=drained_at)
    times = minutes(world, 100)
    kept = held(world)
    assert 2 * ROOM < kept <= 3 * ROOM
    drain_all(world.client)
    assert (in_postgres().total(), held(world)) == (kept, 0)
    (gap,) = dropped()
    assert gap.start == drained_at
    # Whatever is missing was counted before the gap ends, and what is there after it.
    ends_us = int((gap.end - BEGINNING).total_seconds() * SECOND_US)
    assert sum(at_us > ends_us for at_us in times) <= kept
    assert sum(at_us < ends_us for at_us in times) >= len(times) - kept


def test_a_batch_that_waits_is_the_oldest(world: World) -> None:
    last_us = minutes(world, 5, ago=101)[-1]
    assert world.call("drain", last_us, SHARD, "TAKE", "f" * 32) == b"f" * 32
    minutes(world, 100)
    assert held(world) <= 3 * ROOM
    assert world.client.hget(f"hr:{{{SHARD}}}:ub", "id") != b"f" * 32


def test_the_room_follows_from_the_memory_it_may_take(settings: Any) -> None:
    settings.HEADROOM_SHARDS, settings.HEADROOM_USAGE_MEMORY_MB = 64, 512
    assert configuration_load().usage_room == 512 * 2**20 // (64 * 3 * 100)
    settings.HEADROOM_SHARDS, settings.HEADROOM_USAGE_MEMORY_MB = 16_384, 1
    assert configuration_load().usage_room == 1
