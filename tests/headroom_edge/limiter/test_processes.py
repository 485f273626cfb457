"""F26: several processes on one key let exactly the limit through."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
import redis

from headroom_edge import AsyncLimiter, Limiter
from tests.headroom_edge.limiter.world import ENDPOINT, TENANT, configuration, limit, publish

PROCESSES = 4
AMPLE_MS = 60_000
ALGORITHMS: list[tuple[str, dict[str, Any]]] = [
    ("token_bucket", {"rate": 1, "per": "1d"}),
    ("gcra", {"rate": 1, "per": "1d"}),
    ("fixed_window", {"window": "1d"}),
    ("sliding_log", {"window": "1d"}),
    ("sliding_counter", {"window": "1d"}),
]


def ask_on_threads(url: str, requests: int) -> int:
    with Limiter.from_url(url, budget_ms=AMPLE_MS, fail="closed") as limiter:
        return sum(
            limiter.check(tenant=TENANT, endpoint=ENDPOINT, subject={"key": "one"}).allowed for _ in range(requests)
        )


def ask_on_a_loop(url: str, requests: int) -> int:
    async def ask() -> int:
        async with AsyncLimiter.from_url(url, budget_ms=AMPLE_MS, fail="closed") as limiter:
            checks = (limiter.check(tenant=TENANT, endpoint=ENDPOINT, subject={"key": "one"}) for _ in range(requests))
            return sum(decision.allowed for decision in await asyncio.gather(*checks))

    return asyncio.run(ask())


def admitted(url: str, ask: Callable[[str, int], int], requests: int) -> int:
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("fork")) as pool:
        return sum(pool.map(ask, [url] * PROCESSES, [requests] * PROCESSES))


def publish_limit(store: redis.Redis, algorithm: str, fields: dict[str, Any], size: int) -> None:
    name = "burst" if "rate" in fields else "limit"
    publish(store, configuration(limit("one", algorithm, "key", **fields, **{name: size})))


@pytest.mark.parametrize("ask", [ask_on_threads, ask_on_a_loop], ids=["threads", "loop"])
def test_four_processes_let_exactly_the_limit_through(
    valkey: redis.Redis, valkey_url: str, ask: Callable[[str, int], int]
) -> None:
    publish_limit(valkey, "fixed_window", {"window": "1d"}, 300)
    assert admitted(valkey_url, ask, 150) == 300


@pytest.mark.parametrize("ask", [ask_on_threads, ask_on_a_loop], ids=["threads", "loop"])
def test_four_processes_get_exactly_what_a_pool_has(
    valkey: redis.Redis, valkey_url: str, ask: Callable[[str, int], int]
) -> None:
    """Of its own, as no loan comes back within the test: a member's share is bounded by the pool that all use."""
    pool = limit("org", "pool", "tenant", rate=1, per="1d", burst=300, reserve=300)
    member = limit("one", "borrowing", "key", assured=1, per="1d", burst=400, parent="org")
    publish(valkey, configuration(pool, member))
    assert admitted(valkey_url, ask, 150) == 300


@pytest.mark.parametrize("ask", [ask_on_threads, ask_on_a_loop], ids=["threads", "loop"])
def test_four_processes_borrow_exactly_what_a_pool_lends(
    valkey: redis.Redis, valkey_url: str, ask: Callable[[str, int], int]
) -> None:
    publish(valkey, configuration(limit("org", "pool", "tenant", rate=1, per="1d", burst=500, reserve=100)))
    assert admitted(valkey_url, ask, 150) == 300  # three quarters of what it lends, at normal priority


@pytest.mark.faults_long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ask", [ask_on_threads, ask_on_a_loop], ids=["threads", "loop"])
@pytest.mark.parametrize(("algorithm", "fields"), ALGORITHMS, ids=[name for name, _ in ALGORITHMS])
def test_every_algorithm_lets_exactly_the_limit_through(
    valkey: redis.Redis,
    valkey_url: str,
    figures: Callable[[str], None],
    ask: Callable[[str, int], int],
    algorithm: str,
    fields: dict[str, Any],
) -> None:
    publish_limit(valkey, algorithm, fields, 7_000)
    passed = admitted(valkey_url, ask, 5_000)
    figures(f"4 processes × 5,000 requests, limit 7,000: {passed} passed")
    assert passed == 7_000
