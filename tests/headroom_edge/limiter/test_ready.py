from __future__ import annotations

import redis

from tests.faults.proxy import Proxy
from tests.headroom_edge.limiter.both import Either, MakeLimiter
from tests.headroom_edge.limiter.world import ENDPOINT, TENANT


def test_ready_connects_before_the_first_request(store: redis.Redis, limiter: Either) -> None:
    assert limiter.ready(60_000)
    dialled = store.info("stats")["total_connections_received"]
    assert not limiter.check(tenant=TENANT, endpoint=ENDPOINT).degraded
    assert store.info("stats")["total_connections_received"] == dialled


def test_ready_brings_the_library(store: redis.Redis, limiter: Either) -> None:
    store.function_flush("SYNC")
    assert limiter.ready(60_000)
    assert store.function_list("headroom")


def test_ready_is_false_and_counts_for_nothing_while_the_store_is_away(
    valkey: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy
) -> None:
    limiter = make_limiter(proxy.url)
    proxy.refuse()
    assert [limiter.ready() for _ in range(30)] == [False] * 30
    assert limiter.breaker.opened == 0
    assert limiter.degraded == 0
    proxy.heal()
    assert limiter.ready(60_000)
