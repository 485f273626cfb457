from __future__ import annotations

import pytest
import redis

from tests.headroom_edge.limiter.both import MakeLimiter, OnThreads
from tests.headroom_edge.limiter.world import ENDPOINT, TENANT, configuration, limit, publish


@pytest.mark.parametrize("connections", [1, 2, 8])
def test_of_a_hundred_at_once_exactly_the_limit_passes(
    valkey: redis.Redis, make_limiter: MakeLimiter, valkey_url: str, connections: int
) -> None:
    publish(valkey, configuration(limit("five", "fixed_window", limit=5, window="1d")))
    limiter = make_limiter(valkey_url, connections=connections)
    decisions = limiter.at_once(100, tenant=TENANT, endpoint=ENDPOINT)
    assert len(decisions) == 100
    assert sum(decision.allowed for decision in decisions) == 5
    assert limiter.degraded == 0


def test_threads_that_wait_for_a_connection_travel_together(valkey: redis.Redis, valkey_url: str) -> None:
    publish(valkey, configuration(limit("all", "fixed_window", limit=1_000, window="1d")))
    limiter = OnThreads(valkey_url, budget_ms=60_000, connections=1)
    limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    valkey.config_resetstat()
    asked = sum(len(limiter.at_once(50, tenant=TENANT, endpoint=ENDPOINT)) for _ in range(4))
    reads = valkey.info("stats")["total_reads_processed"]
    assert asked == 200
    assert reads < asked
    assert limiter.peek(tenant=TENANT, endpoint=ENDPOINT).remaining == 1_000 - 1 - asked - 1
    limiter.close()


def test_it_never_opens_more_connections_than_it_may(valkey: redis.Redis, valkey_url: str) -> None:
    publish(valkey, configuration(limit("all", "fixed_window", limit=1_000, window="1d")))
    before = {client["id"] for client in valkey.client_list()}
    limiter = OnThreads(valkey_url, budget_ms=60_000, connections=3)
    for _ in range(3):
        limiter.at_once(40, tenant=TENANT, endpoint=ENDPOINT)
    assert 1 <= len({client["id"] for client in valkey.client_list()} - before) <= 3
    limiter.close()
