"""Scenario 29 with priorities, on real processes: a pool for everyone, four classes, sixteen times the load at once.

The ratios are those of 180 → 2,850 requests a second on a backend that takes 800, at a pace that a busy machine keeps.
The clients never ask faster than that, however the machine's speed changes, so they never ask for more critical
requests than the backend takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from headroom_edge.plan.priority import PRIORITIES
from quotas.policies.spec import EVERYWHERE, Configuration, Endpoint, Policy, Tenant, Tier
from tests.faults.market_worker import IDLE, TENANTS, MarketWorkers, Told
from tests.headroom_edge.limiter.both import until
from tests.headroom_edge.limiter.world import limit, publish
from tests.headroom_edge.lua.market import excess, worst_window
from tests.valkeys import SpareValkey

JUMP, BACKEND = 2_850, 800
CALM = 16  # times slower
WORKERS = 4
LEAST_BURST = 120  # the tenth of it that only critical requests use needs room for all processes at once
BEFORE, OPEN, EBBING, AFTER = 1, 2, 3, 4


def burst_of(capacity: int) -> int:
    return max(capacity // 2, LEAST_BURST)


def published(store: redis.Redis, capacity: int) -> None:
    """200/s with a burst of 400 for each client, and what the backend takes for everyone."""
    pool = limit("backend", "pool", rate=capacity, per="1s", burst=burst_of(capacity), on_failure="closed")
    client = limit("client", "token_bucket", "key", rate=200, per="1s", burst=400, on_failure="closed")
    endpoints = [Endpoint(n, f"{priority}:call", priority=priority) for n, priority in enumerate(PRIORITIES, 1)]
    whole = Configuration(
        revision=1,
        tiers={"pro": Tier(1, "pro")},
        endpoints={endpoint.name: endpoint for endpoint in endpoints},
        tenants={name: Tenant(number, name, "pro") for number, name in enumerate(TENANTS, 1)},
        policies=(Policy("clients", EVERYWHERE, (client,), tier="pro"), Policy("backend", EVERYWHERE, (pool,))),
        overrides=(),
        limit_numbers={"client": 1, "backend": 2},
    )
    publish(store, replace(whole, subject_cap=10_000_000))


def pause(workers: MarketWorkers) -> None:
    workers.board.begin(IDLE, 1_000)
    until(lambda: workers.board.seen == {IDLE})


def ask(workers: MarketWorkers, phase: int, each_second: float, requests: int) -> None:
    asked = workers.board.asked
    workers.board.begin(phase, int(WORKERS * 1_000_000 / each_second))
    until(lambda: workers.board.asked >= asked + requests)


def open_market(store: redis.Redis, url: str, folder: Path, *, slower: int, seconds: int) -> tuple[int, list[Told]]:
    """Returns what the backend takes in a second, and all answers."""
    jump, capacity = JUMP // slower, BACKEND // slower
    published(store, capacity)
    workers = MarketWorkers(url, folder, WORKERS)
    with workers.running():
        until(lambda: workers.board.seen == {IDLE})
        ask(workers, BEFORE, jump / CALM, 30)
        ask(workers, OPEN, jump, jump * seconds)
        ask(workers, EBBING, jump / CALM, 20 + burst_of(capacity) // 4)  # until the pool has room for all again
        ask(workers, AFTER, jump / CALM, 30)
        pause(workers)
    return capacity, workers.told()


def shares(told: list[Told]) -> dict[str, float]:
    """Of what each class asked for, how much was let through."""
    asked, passed = (Counter(one.what for one in told if one.allowed or every) for every in (True, False))
    return {what: passed[what] / asked[what] for what in asked}


def assert_it_sheds_from_the_bottom(capacity: int, told: list[Told]) -> str:
    spike = [one for one in told if one.phase == OPEN]
    found = shares(spike)
    times = [one.at_us for one in told if one.allowed]
    figures = f"{len(spike)} asked, {capacity}/s taken, worst second {worst_window(times)}, " + ", ".join(
        f"{what} {share:.0%}" for what, share in found.items()
    )
    assert not any(one.degraded for one in told), figures
    assert all(one.allowed for one in told if one.phase in (BEFORE, AFTER)), figures
    assert found["critical"] == 1, figures
    assert found["high"] > found["normal"] > found["sheddable"], figures
    assert found["sheddable"] < 0.5, figures
    # Who calls a critical endpoint and lowers its own priority is shed with the others of that class.
    assert abs(found["lowered"] - found["sheddable"]) < 0.2, figures
    assert excess(times, capacity, burst_of(capacity)) <= 0, figures
    return figures


def test_critical_requests_survive_the_opening_of_the_market(
    valkey: redis.Redis, valkey_server: SpareValkey, tmp_path: Path
) -> None:
    capacity, told = open_market(valkey, valkey_server.url, tmp_path, slower=10, seconds=5)
    assert_it_sheds_from_the_bottom(capacity, told)


@pytest.mark.faults_long
def test_critical_requests_survive_a_long_rush(
    valkey: redis.Redis, valkey_server: SpareValkey, tmp_path: Path, figures: Callable[[str], None]
) -> None:
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        valkey.flushall()
        capacity, told = open_market(valkey, valkey_server.url, folder, slower=2, seconds=20)
        figures(assert_it_sheds_from_the_bottom(capacity, told))
