"""The list of enforcing processes: who is alive, who is shown, and that it is bounded."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from headroom_edge import keys
from tests.headroom_edge.lua.world import NOW_US, World

SECOND_US = 1_000_000


def beat(world: World, name: str, after_s: float = 0, about: str = "{}") -> Any:
    return world.client.fcall("hs_heartbeat", 1, keys.ALL, NOW_US + int(after_s * SECOND_US), name, about)


def listed(store: redis.Redis) -> set[str]:
    names: Any = store.zrange(keys.enforcers(), 0, -1)
    about: Any = store.hkeys(keys.enforcer_info())
    assert sorted(names) == sorted(about)
    return {name.decode() for name in names}


def test_only_those_of_the_last_15_seconds_are_counted(world: World) -> None:
    assert [beat(world, "a"), beat(world, "b", 5), beat(world, "b", 14.9)] == [1, 2, 2]
    assert beat(world, "b", 16) == 1


def test_a_silent_process_stays_on_the_list_for_ten_minutes(world: World) -> None:
    beat(world, "a")
    beat(world, "b", 600)
    assert listed(world.client) == {"a", "b"}
    beat(world, "b", 616)
    assert listed(world.client) == {"b"}


def test_a_process_that_ends_says_so(world: World) -> None:
    beat(world, "a")
    assert beat(world, "b") == 2
    assert beat(world, "a", about="") == 1
    assert listed(world.client) == {"b"}
    assert beat(world, "never there", about="") == 1


def test_the_list_has_a_time_to_live_and_a_largest_size(world: World) -> None:
    many = {f"p{number:05}": NOW_US + number for number in range(10_000)}
    world.client.zadd(keys.enforcers(), many)
    world.client.hset(keys.enforcer_info(), mapping=dict.fromkeys(many, "{}"))
    beat(world, "new")
    assert listed(world.client) == {*many, "new"} - {"p00000"}
    assert 0 < world.client.pttl(keys.enforcers()) <= 3_600_000
    assert 0 < world.client.pttl(keys.enforcer_info()) <= 3_600_000


@pytest.mark.parametrize("words", [(), ("a",), ("a" * 101, "{}"), ("a", "x" * 4_097)])
def test_nonsense_is_refused_and_changes_nothing(world: World, words: tuple[str, ...]) -> None:
    with pytest.raises(redis.ResponseError, match="give an id of at most 100 bytes"):
        world.client.fcall("hs_heartbeat", 1, keys.ALL, NOW_US, *words)
    assert not world.client.exists(keys.enforcers(), keys.enforcer_info())
