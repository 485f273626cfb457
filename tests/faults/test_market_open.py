"""Scenario 29, without leases: sixteen times the load at once, from clients that nobody knew, on a slow store."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import redis

from headroom_edge import AsyncLimiter, Decision
from headroom_edge.store.breaker import BreakerSettings, BreakerState
from quotas.policies.spec import EVERYWHERE, Policy
from tests.faults.proxy import Proxy
from tests.headroom_edge.limiter.conftest import AMPLE_MS
from tests.headroom_edge.limiter.world import ENDPOINT, TENANT, configuration, limit, publish

USUAL, SPIKE = 100, 1_600
BACKEND = 900  # what the service behind can take in the hour, and never gets more
BREAKER = BreakerSettings(failures=5, of=20, cooldown_s=0.2)


def market(store: redis.Redis) -> None:
    """200/s with a burst of 400 for each client; the backend's own limit is everyone's, and refuses in doubt."""
    per_client = limit("client", "token_bucket", "key", rate=200, burst=400, on_failure="closed")
    backend = limit("backend", "fixed_window", limit=BACKEND, window="1h", on_failure="closed")
    found = configuration(per_client)
    everyone = Policy("backend", EVERYWHERE, (backend,))
    publish(store, replace(found, policies=(*found.policies, everyone), limit_numbers={"client": 1, "backend": 2}))


async def rush(limiter: AsyncLimiter, clients: range, budget_ms: int = AMPLE_MS) -> list[Decision]:
    checks = (
        limiter.check(tenant=TENANT, endpoint=ENDPOINT, subject={"key": f"client-{n}"}, budget_ms=budget_ms)
        for n in clients
    )
    return list(await asyncio.gather(*checks))


async def open_market(proxy: Proxy) -> tuple[list[Decision], ...]:
    async with AsyncLimiter.from_url(proxy.url, breaker=BREAKER) as limiter:
        before = await rush(limiter, range(USUAL))
        on_time = await rush(limiter, range(USUAL, USUAL + SPIKE // 4))
        proxy.delay(3)  # the store slows down under the load
        late = await rush(limiter, range(USUAL + SPIKE // 4, USUAL + SPIKE), budget_ms=500)
        proxy.heal()
        while limiter.breaker.state is not BreakerState.CLOSED:
            await rush(limiter, range(1))
            await asyncio.sleep(0.05)
        after = await rush(limiter, range(USUAL))
    return before, on_time, late, after


def test_nothing_fails_open_and_the_backend_never_gets_more_than_its_limit(valkey: redis.Redis, proxy: Proxy) -> None:
    market(valkey)
    before, on_time, late, after = asyncio.run(open_market(proxy))
    assert all(decision.allowed and not decision.degraded for decision in before + on_time)
    assert len(late) == SPIKE - SPIKE // 4
    # A limit that says `closed` refuses what the store could not decide, and says why.
    assert all(decision.degraded and not decision.allowed for decision in late)
    assert not any(decision.degraded for decision in after)
    everything = before + on_time + late + after
    assert sum(decision.allowed for decision in everything) <= BACKEND
    assert {decision.limit for decision in after if not decision.allowed} <= {"backend"}
