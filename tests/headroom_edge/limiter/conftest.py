from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from config.data_folders import Places
from tests.headroom_edge.limiter.both import Either, MakeLimiter, OnCallbacks, OnLoop, OnThreads
from tests.headroom_edge.limiter.world import configuration, limit, publish
from tests.valkeys import SpareValkey

# The cores are shared with other tests: a budget that only a fault can exceed.
AMPLE_MS = 60_000


@pytest.fixture(autouse=True)
def tick_s(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets how often chores are done in the background: never, unless a test says otherwise."""

    def tick(seconds: float) -> None:
        monkeypatch.setattr("headroom_edge.limiter.TICK_S", seconds)
        monkeypatch.setattr("headroom_edge.aio.TICK_S", seconds)

    tick(3_600)
    return tick


@pytest.fixture(params=[OnThreads, OnLoop, OnCallbacks], ids=["threads", "loop", "callbacks"])
def make_limiter(request: pytest.FixtureRequest) -> Iterator[MakeLimiter]:
    """Makes a limiter for threads, in a second run of the test one for an event loop, then one by callbacks."""
    made: list[Either] = []

    def make(url: str, **settings: Any) -> Either:
        made.append(request.param(url, **{"budget_ms": AMPLE_MS, **settings}))
        return made[-1]

    yield make
    for limiter in made:
        limiter.close()


@pytest.fixture
def limiter(make_limiter: MakeLimiter, valkey_url: str) -> Either:
    return make_limiter(valkey_url)


@pytest.fixture
def store(valkey: redis.Redis) -> redis.Redis:
    """Holds one limit for every endpoint: 5 an hour for the tenant."""
    publish(valkey, configuration(limit("hourly", "fixed_window", limit=5, window="1h")))
    return valkey


@pytest.fixture
def socket_url(valkey_server: SpareValkey, home: Places) -> str:
    """The same server over its Unix socket."""
    return f"unix://{home.valkey_socket}"
