from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tests.headroom_edge.lua.world import World


@pytest.fixture
def world(valkey: redis.Redis) -> Iterator[World]:
    """Its keys expire by no clock: the server's goes on while the time that the calls name stands still."""
    execute: Any = valkey.execute_command
    valkey.config_set("import-mode", "yes")
    execute("CLIENT", "IMPORT-SOURCE", "ON")
    yield World(valkey)
    execute("CLIENT", "IMPORT-SOURCE", "OFF")
    valkey.config_set("import-mode", "no")
