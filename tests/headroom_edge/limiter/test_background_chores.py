"""Heartbeats and the other things an enforcer says on its own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import redis

from headroom_edge import keys
from tests.headroom_edge.limiter.both import Either, MakeLimiter, until
from tests.headroom_edge.limiter.world import ENDPOINT, TENANT


def test_it_says_by_itself_that_it_is_there(
    store: redis.Redis, limiter: Either, tick_s: Callable[[float], None]
) -> None:
    tick_s(0.01)
    limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    enforcer = limiter.core.chores.enforcer.encode()
    until(lambda: store.zscore(keys.enforcers(), enforcer) is not None)
    about = json.loads(store.hget(keys.enforcer_info(), enforcer.decode()) or "")
    assert about["pid"] == os.getpid()
    assert about["degraded"] == 0


def test_enforcers_learn_how_many_they_are(store: redis.Redis, make_limiter: MakeLimiter, valkey_url: str) -> None:
    limiters = [make_limiter(valkey_url) for _ in range(3)]
    for limiter in [*limiters, *limiters]:
        limiter.check(tenant=TENANT, endpoint=ENDPOINT)
        limiter.core.chores._next_heartbeat_s = 0
        limiter.attend()
    assert [limiter.core.failures.share for limiter in limiters] == [3, 3, 3]


def test_between_heartbeats_nothing_is_sent(store: redis.Redis, limiter: Either) -> None:
    limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    assert len(limiter.core.chores.take()) == 1
    assert limiter.core.chores.take() == []
