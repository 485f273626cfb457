import pytest
import redis

from tests.headroom_edge.lua.world import World


@pytest.fixture
def world(valkey: redis.Redis) -> World:
    return World(valkey)
