"""Global limits on a real cluster: they are counted at their home, wherever the tenant's shard lies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from redis.cluster import RedisCluster

from headroom_edge import Check, Decision, keys
from headroom_edge.check import DIMENSIONS_MAX
from headroom_edge.leases.decision import LeasedDecision
from quotas.policies.spec import EVERYWHERE, Configuration, Limit, Policy
from tests.clusters import SpareCluster
from tests.headroom_edge.limiter.both import Either, MakeLimiter, OnCallbacks, OnLoop, OnThreads, until
from tests.headroom_edge.limiter.leased import Clock
from tests.headroom_edge.limiter.world import (
    COSTLY_ENDPOINT,
    ENDPOINT,
    TENANT,
    configuration,
    limit,
    many_tenants,
    publish,
)
from tests.sweeps import each_once, first_of

TENANTS = [f"t{number}" for number in range(30)]
AMPLE = limit("own", "fixed_window", limit=1_000_000, window="1h")
TOTAL = limit("total", "fixed_window", limit=40, window="1h")
Publish = Callable[..., None]


def with_globals(*limits: Limit, own: Limit = AMPLE, endpoint: str = EVERYWHERE, revision: int = 1) -> Configuration:
    whole = many_tenants(configuration(own, revision=revision), len(TENANTS))
    numbers = {name: number for number, name in enumerate((own.name, *(each.name for each in limits)), 1)}
    policies = (*whole.policies, *([Policy("global", endpoint, limits)] if limits else []))
    return replace(whole, policies=policies, limit_numbers=numbers)


@pytest.fixture
def store(cluster: SpareCluster) -> Iterator[RedisCluster]:
    with cluster.client() as client:
        yield client


@pytest.fixture
def publish_globals(store: RedisCluster) -> Publish:
    def put(*limits: Limit, **about: Any) -> None:
        publish(store, with_globals(*limits, **about))

    return put


@pytest.fixture(params=[False, True], ids=["direct", "leases"])
def limiter(request: pytest.FixtureRequest, cluster: SpareCluster, make_limiter: MakeLimiter) -> Either:
    return make_limiter(cluster.url, leases=request.param)


def used(store: RedisCluster) -> int:
    """Of the hour's units, at the home."""
    reply: Any = store.fcall("hr_peek", 1, keys.ALL, keys.EVERYONE, ENDPOINT, "1")
    return int(reply[3]) - int(reply[4]) - 1 if reply[0] else int(reply[3])


def test_all_tenants_together_are_admitted_exactly_as_often_as_the_limit_says(
    publish_globals: Publish, limiter: Either
) -> None:
    publish_globals(TOTAL)
    decisions = [limiter.check(tenant=tenant, endpoint=ENDPOINT) for tenant in TENANTS * 2]
    assert sum(each.allowed for each in decisions) == 40
    assert {(each.reason, each.limit) for each in decisions if not each.allowed} == {("limit", "total")}
    assert not any(each.degraded for each in decisions)
    assert all(each.retry_us > 0 for each in decisions if not each.allowed)


def test_a_limit_that_is_large_enough_is_paid_from_blocks_of_this_process(
    publish_globals: Publish, limiter: Either
) -> None:
    publish_globals(limit("total", "fixed_window", limit=900_000, window="1h"))
    Clock(limiter)
    decisions = [limiter.check(tenant=TENANT, endpoint=ENDPOINT) for _ in range(60)]
    leased = [part for each in decisions for part in each.parts if isinstance(part, LeasedDecision)]
    assert len(leased) > 20
    assert {(each.allowed, each.limit, each.check.tenant) for each in decisions} == {(True, "total", TENANT)}
    assert [each.remaining for each in decisions] == sorted((each.remaining for each in decisions), reverse=True)


def test_checks_that_are_decided_together_pay_each_for_itself(publish_globals: Publish, limiter: Either) -> None:
    publish_globals(TOTAL)
    decisions = limiter.check_many([Check(tenant, ENDPOINT) for tenant in TENANTS * 2], rows=True)
    assert sum(each.allowed for each in decisions) == 40
    assert {row.name for each in decisions if each.allowed for row in each.rows} == {"own", "total"}


def test_units_of_a_large_limit_are_spent_from_a_block(publish_globals: Publish, limiter: Either) -> None:
    publish_globals(limit("backend", "token_bucket", rate=500_000, burst=500_000))
    Clock(limiter)
    spent: list[Decision] = []

    def has_block() -> bool:
        """A process takes blocks once it asks often."""
        decisions = limiter.check_many([Check(tenant, ENDPOINT) for tenant in TENANTS * 10], rows=True)
        assert all(each.allowed and not each.degraded for each in decisions)
        spent.extend(each for each in decisions if any(isinstance(part, LeasedDecision) for part in each.parts))
        return bool(spent)

    until(has_block)
    assert {row.name for each in spent for row in each.rows} == {"own", "backend"}


def test_a_denial_of_the_shard_gives_the_unit_back(
    publish_globals: Publish, limiter: Either, store: RedisCluster
) -> None:
    publish_globals(TOTAL, own=limit("own", "fixed_window", limit=2, window="1h"))
    told = [limiter.check(tenant=TENANT, endpoint=ENDPOINT) for _ in range(6)]
    assert [each.allowed for each in told] == [True, True, False, False, False, False]
    assert told[-1].limit == "own"
    assert used(store) == 2


def test_the_tightest_of_both_is_named(publish_globals: Publish, limiter: Either) -> None:
    publish_globals(TOTAL)
    decision = limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    assert (decision.limit, decision.remaining) == ("total", 39)
    publish_globals(TOTAL, own=limit("own", "fixed_window", limit=10, window="1h"), revision=2)
    assert limiter.check(tenant=TENANT, endpoint=ENDPOINT).limit == "own"


def test_a_busy_process_pays_from_blocks_and_is_counted_exactly(
    publish_globals: Publish, limiter: Either, store: RedisCluster
) -> None:
    publish_globals(limit("total", "fixed_window", limit=10_000, window="1h"))
    Clock(limiter)
    told = [limiter.check_many([Check(tenant, ENDPOINT)])[0] for tenant in TENANTS * 10]
    assert all(each.allowed for each in told)
    leased = [each for each in told if any(isinstance(part, LeasedDecision) for part in each.parts)]
    assert leased
    assert [each.check.tenant for each in told] == TENANTS * 10
    assert (leased[-1].reason, leased[-1].limit) == ("ok", "total")
    limiter.close()
    assert used(store) == len(told)


def test_a_subject_may_have_as_many_dimensions_as_elsewhere(publish_globals: Publish, limiter: Either) -> None:
    publish_globals(TOTAL)
    subject = {f"d{number}": "x" for number in range(DIMENSIONS_MAX)}
    assert limiter.check(tenant=TENANT, endpoint=ENDPOINT, subject=subject, holder="me").allowed


def test_a_limit_with_plenty_left_denies_nobody_where_no_block_is_granted(
    publish_globals: Publish, limiter: Either
) -> None:
    """A limit in shadow that is used up keeps the store from granting blocks."""
    shade = limit("shade", "fixed_window", limit=5, window="1h", mode="shadow")
    publish_globals(limit("total", "fixed_window", limit=1_000_000, window="1h"), shade)
    assert all(limiter.check(tenant=tenant, endpoint=ENDPOINT).allowed for tenant in TENANTS * 5)


def test_a_bypass_of_everything_lets_everybody_through(
    publish_globals: Publish, limiter: Either, store: RedisCluster
) -> None:
    publish_globals(limit("total", "fixed_window", limit=2_000, window="1h"))
    until_us = 4_000_000_000_000_000
    switch = json.dumps([{"scope": "all", "name": "", "until_us": until_us, "reason": "test"}])
    for shard in (*range(keys.SHARDS), keys.EVERYONES_SHARD):
        store.fcall("hr_bypass", 1, keys.shard_prefix(shard), switch)
    assert all(limiter.check(tenant=tenant, endpoint=ENDPOINT).allowed for tenant in TENANTS * 5)


def test_a_busy_tenant_that_is_denied_costs_the_home_nothing(
    publish_globals: Publish, limiter: Either, store: RedisCluster
) -> None:
    own = limit("own", "fixed_window", limit=5, window="1h")
    publish_globals(limit("total", "fixed_window", limit=10_000, window="1h"), own=own)
    told = [limiter.check(tenant=TENANT, endpoint=ENDPOINT).allowed for _ in range(400)]
    limiter.close()
    assert sum(told) == 5
    assert used(store) == 5


def test_a_peek_charges_nobody(publish_globals: Publish, limiter: Either, store: RedisCluster) -> None:
    publish_globals(TOTAL)
    assert limiter.peek(tenant=TENANT, endpoint=ENDPOINT).remaining == 39
    assert used(store) == 0


def test_the_default_cost_of_an_endpoint_counts(publish_globals: Publish, limiter: Either) -> None:
    publish_globals(limit("total", "fixed_window", limit=40, window="1h", unit="cost"))
    told = [limiter.check(tenant=tenant, endpoint=COSTLY_ENDPOINT).allowed for tenant in TENANTS]
    assert sum(told) == 8


def test_a_refund_reaches_both(publish_globals: Publish, limiter: Either, store: RedisCluster) -> None:
    publish_globals(TOTAL)
    (decision,) = limiter.check_many([Check(TENANT, ENDPOINT)], rows=True)
    assert limiter.refund(decision) == 2
    assert used(store) == 0


def test_slots_of_a_global_concurrency_limit_are_released(publish_globals: Publish, limiter: Either) -> None:
    publish_globals(limit("slots", "concurrency", limit=2, hold="1h"))
    held = [limiter.check(tenant=tenant, endpoint=ENDPOINT, holder=tenant) for tenant in TENANTS[:3]]
    assert [each.allowed for each in held] == [True, True, False]
    assert limiter.release(held[0]) == 1
    assert limiter.check(tenant=TENANTS[3], endpoint=ENDPOINT, holder="next").allowed


def test_a_limit_on_one_endpoint_leaves_the_others_alone(
    publish_globals: Publish, limiter: Either, store: RedisCluster
) -> None:
    publish_globals(limit("backend", "fixed_window", limit=3, window="1h"), endpoint=COSTLY_ENDPOINT)
    assert all(limiter.check(tenant=tenant, endpoint=ENDPOINT).allowed for tenant in TENANTS)
    assert sum(limiter.check(tenant=tenant, endpoint=COSTLY_ENDPOINT).allowed for tenant in TENANTS) == 3


def test_a_global_limit_that_comes_and_goes_is_noticed(publish_globals: Publish, limiter: Either) -> None:
    publish_globals()
    assert all(limiter.check(tenant=TENANT, endpoint=ENDPOINT).allowed for _ in range(20))
    publish_globals(limit("total", "fixed_window", limit=5, window="1h"), revision=2)
    told = [limiter.check(tenant=tenant, endpoint=ENDPOINT).allowed for tenant in TENANTS[:10]]
    assert sum(told) == 5
    publish_globals(revision=3)
    limiter.core.globals and limiter.core.globals.book._start_over()  # type: ignore[func-returns-value]
    assert all(limiter.check(tenant=TENANT, endpoint=ENDPOINT).allowed for _ in range(20))
    assert not limiter.core.global_endpoints


def test_a_caller_that_does_not_pay_is_told_and_nothing_is_counted(
    publish_globals: Publish, store: RedisCluster
) -> None:
    publish_globals(TOTAL)
    prefix = keys.tenant_prefix(TENANT)
    reply: Any = store.fcall("hr_check", 1, prefix, TENANT, ENDPOINT, "1")
    assert reply[:2] == [0, b"global"]
    assert store.hlen(f"{prefix}:u") <= 1
    paid: Any = store.fcall("hr_check", 1, keys.ALL, keys.EVERYONE, ENDPOINT, "1", "ALL")
    assert paid[:2] == [1, b"ok"]
    reply = store.fcall("hr_check", 1, prefix, TENANT, ENDPOINT, "1", "GLOBAL", "paid")
    assert reply[:2] == [1, b"ok"]
    receipt = ":".join(part.decode() if isinstance(part, bytes) else str(part) for part in paid[10])
    assert store.fcall("hr_refund", 1, keys.ALL, keys.EVERYONE, ENDPOINT, receipt) == 1


def test_denials_of_a_global_limit_are_counted_with_their_tenant(
    publish_globals: Publish, limiter: Either, store: RedisCluster
) -> None:
    publish_globals(limit("total", "fixed_window", limit=3, window="1h"))
    told = [limiter.check(tenant=TENANT, endpoint=ENDPOINT).allowed for _ in range(10)]
    assert sum(told) == 3
    limiter.attend()
    prefix = keys.tenant_prefix(TENANT)
    counted = Counter[Any]()
    for field, value in store.hgetall(f"{prefix}:u").items():  # of one or two steps of time
        if field != b"_":
            counted[field[-2:]] += int(value) % 2**24
    assert counted == {b"1a": 3, b"d2": 7}
    assert store.llen(f"{prefix}:d:00001") == 1


def test_the_home_without_configuration_follows_the_failure_mode(
    publish_globals: Publish, limiter: Either, store: RedisCluster
) -> None:
    publish_globals(TOTAL)
    assert not limiter.check(tenant=TENANT, endpoint=ENDPOINT).degraded
    for name in (keys.ALL, keys.config(keys.EVERYONES_SHARD), keys.tenants(keys.EVERYONES_SHARD)):
        store.delete(name)
    decision = limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    assert (decision.allowed, decision.failure) == (True, "open")


@pytest.mark.parametrize(
    ("make_limiter", "mode"), each_once([OnThreads, OnLoop, OnCallbacks], ["open", "closed"]), indirect=["make_limiter"]
)
def test_while_the_home_is_away_its_declared_failure_mode_decides(
    spare_cluster: SpareCluster, make_limiter: MakeLimiter, mode: str
) -> None:
    with spare_cluster.client() as client:
        publish(client, with_globals(replace(TOTAL, on_failure=mode)))  # type: ignore[arg-type]
    spare_cluster.keep_roles()
    limiter = make_limiter(spare_cluster.url, budget_ms=500)
    home = spare_cluster.owner_of(keys.ALL)
    others = [name for name in TENANTS if spare_cluster.owner_of(keys.tenant_prefix(name)) is not home]
    until(lambda: not limiter.check(tenant=others[0], endpoint=ENDPOINT).degraded)
    home.pause()
    decision = limiter.check(tenant=others[0], endpoint=ENDPOINT)
    assert (decision.allowed, decision.failure) == (mode == "open", mode)
    home.resume()


@pytest.mark.parametrize("make_limiter", first_of([OnThreads, OnLoop, OnCallbacks]), indirect=True)
def test_what_a_tenants_own_limit_denies_is_a_denial_while_the_home_is_away(
    spare_cluster: SpareCluster, make_limiter: MakeLimiter
) -> None:
    with spare_cluster.client() as client:
        publish(client, with_globals(TOTAL, own=limit("own", "fixed_window", limit=1, window="1h")))
    limiter = make_limiter(spare_cluster.url)
    assert limiter.check(tenant=TENANT, endpoint=ENDPOINT).allowed
    with spare_cluster.client() as client:
        for name in (keys.ALL, keys.config(keys.EVERYONES_SHARD), keys.tenants(keys.EVERYONES_SHARD)):
            client.delete(name)
    decision = limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    assert (decision.allowed, decision.reason, decision.failure) == (False, "limit", None)


def test_a_callers_priority_reaches_the_home(publish_globals: Publish, limiter: Either) -> None:
    publish_globals(limit("backend", "pool", rate=1, per="1h", burst=8))
    told = [limiter.check(tenant=tenant, endpoint=ENDPOINT, priority="sheddable") for tenant in TENANTS[:8]]
    assert [each.allowed for each in told] == [True] * 4 + [False] * 4
    assert [limiter.check(tenant=TENANT, endpoint=ENDPOINT).allowed for _ in range(3)] == [True, True, False]
