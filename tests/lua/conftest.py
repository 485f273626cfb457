import pytest
import redis

from tests.lua.world import World


@pytest.fixture
def world(valkey: redis.Redis) -> World:
    return World(valkey)
