"""Decisions on a real cluster of three primaries and three replicas."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from redis.cluster import RedisCluster

from headroom_edge import Check, Decision, keys
from headroom_edge.errors import StoreAddressError
from headroom_edge.lua_library import stored_version
from headroom_edge.store.breaker import BreakerState
from headroom_edge.store.cluster import Cluster
from headroom_edge.store.cluster_pipeline import ClusterPipeline
from headroom_edge.store.routing import Place, SlotMap
from headroom_edge.store.slots import slot_of
from tests.clusters import SpareCluster
from tests.headroom_edge.limiter.both import WAIT_S, Either, MakeLimiter, OnCallbacks, OnLoop, OnThreads, until
from tests.headroom_edge.limiter.world import ENDPOINT, TENANT, configuration, limit, many_tenants, publish, servers
from tests.sweeps import first_of
from tests.valkeys import SpareValkey

TENANTS = [f"t{number}" for number in range(60)]
CALLERS = 3
HOURLY = limit("hourly", "fixed_window", limit=5, window="1h")


@pytest.fixture
def store(cluster: SpareCluster) -> Iterator[RedisCluster]:
    """Five an hour for each of many tenants."""
    with cluster.client() as client:
        publish(client, many_tenants(configuration(HOURLY), len(TENANTS)))
        yield client


@pytest.fixture
def limiter(store: RedisCluster, cluster: SpareCluster, make_limiter: MakeLimiter) -> Either:
    return make_limiter(cluster.url)


def ask_all(limiter: Either) -> Counter[tuple[bool, str, bool]]:
    decisions = [limiter.check(tenant=tenant, endpoint=ENDPOINT) for tenant in TENANTS]
    return Counter((each.allowed, each.reason, each.degraded) for each in decisions)


def test_tenants_of_every_primary_are_counted_exactly(limiter: Either) -> None:
    told = sum((ask_all(limiter) for _ in range(6)), Counter())
    assert told == {(True, "ok", False): 5 * len(TENANTS), (False, "limit", False): len(TENANTS)}


def test_checks_of_many_primaries_are_decided_together(limiter: Either) -> None:
    decisions = limiter.check_many([Check(tenant, ENDPOINT) for tenant in (*TENANTS, *TENANTS)])
    assert [each.check.tenant for each in decisions] == [*TENANTS, *TENANTS]
    assert [each.remaining for each in decisions] == [4] * len(TENANTS) + [3] * len(TENANTS)


def test_refund_release_and_reset_find_the_server_of_their_tenant(limiter: Either) -> None:
    for tenant in TENANTS[:10]:
        decision = limiter.check_many([Check(tenant, ENDPOINT)], rows=True)[0]
        assert limiter.refund(decision) == 1
        limiter.check(tenant=tenant, endpoint=ENDPOINT)
        assert limiter.reset(tenant=tenant, endpoint=ENDPOINT) == 1
        assert limiter.peek(tenant=tenant, endpoint=ENDPOINT).remaining == 4


def test_ready_loads_the_library_into_every_primary(cluster: SpareCluster, make_limiter: MakeLimiter) -> None:
    limiter = make_limiter(cluster.url)
    assert limiter.ready(60_000)
    with cluster.client() as client:
        assert all(stored_version(server) for server in servers(client))


def test_a_primary_without_the_library_gets_it_from_the_first_check(
    store: RedisCluster, cluster: SpareCluster, limiter: Either
) -> None:
    ask_all(limiter)
    for node in cluster.primaries():
        cluster.on(node, "FUNCTION", "FLUSH")
    assert ask_all(limiter) == {(True, "ok", False): len(TENANTS)}
    for node in cluster.primaries():
        cluster.on(node, "FUNCTION", "FLUSH")
    assert all(each.remaining == 2 for each in limiter.check_many([Check(tenant, ENDPOINT) for tenant in TENANTS]))


def test_the_chores_reach_their_servers(store: RedisCluster, limiter: Either) -> None:
    limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    limiter.core.chores.heartbeat.next_s = 0
    limiter.attend()
    assert store.zscore(keys.enforcers(), limiter.core.chores.heartbeat.enforcer) is not None


def test_a_slot_that_has_moved_is_found_again(cluster: SpareCluster, limiter: Either) -> None:
    limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    prefix = keys.tenant_prefix(TENANT)
    source = cluster.owner_of(prefix)
    target = next(node for node in cluster.primaries() if node is not source)
    for there, back in ((source, target), (target, source)):
        cluster.move_slot(slot_of(prefix), there, back)
        assert not limiter.check(tenant=TENANT, endpoint=ENDPOINT).degraded
    assert limiter.peek(tenant=TENANT, endpoint=ENDPOINT).remaining == 1


def test_a_half_moved_slot_follows_the_failure_mode_and_charges_nothing(
    cluster: SpareCluster, store: RedisCluster, make_limiter: MakeLimiter
) -> None:
    limiter = make_limiter(cluster.url, fail="closed")
    limiter.ready(60_000)
    prefix = keys.tenant_prefix(TENANT)
    source = cluster.owner_of(prefix)
    target = next(node for node in cluster.primaries() if node is not source)
    others = [tenant for tenant in TENANTS if keys.tenant_prefix(tenant) != prefix]
    assert not limiter.check(tenant=TENANT, endpoint=ENDPOINT).degraded
    cluster.begin_move(slot_of(prefix), source, target)
    try:
        cluster.move_keys(source, target, keys.tenants(keys.shard_of(TENANT)))
        half = limiter.check(tenant=TENANT, endpoint=ENDPOINT, budget_ms=200)
        assert (half.allowed, half.degraded) == (True, True)  # the plan's own mode is open
        assert not any(limiter.check(tenant=tenant, endpoint=ENDPOINT).degraded for tenant in others[:10])
    finally:
        cluster.move_slot(slot_of(prefix), source, target)
    assert limiter.check(tenant=TENANT, endpoint=ENDPOINT).remaining == 3
    cluster.move_slot(slot_of(prefix), target, source)


@pytest.mark.parametrize("make_limiter", first_of([OnLoop, OnThreads, OnCallbacks]), indirect=True)
def test_a_dead_primary_concerns_its_own_tenants_only_and_its_replica_takes_over(
    spare_cluster: SpareCluster, make_limiter: MakeLimiter
) -> None:
    with spare_cluster.client() as client:
        publish(client, many_tenants(configuration(HOURLY), len(TENANTS)))
        client.wait(1, 60_000, target_nodes=RedisCluster.PRIMARIES)
    limiter = make_limiter(spare_cluster.url)
    ask_all(limiter)
    victim = spare_cluster.owner_of(keys.tenant_prefix(TENANTS[0]))
    others = [tenant for tenant in TENANTS if spare_cluster.owner_of(keys.tenant_prefix(tenant)) is not victim]
    limits_left = {tenant: limiter.peek(tenant=tenant, endpoint=ENDPOINT).remaining for tenant in others}
    victim.kill()
    assert limiter.check(tenant=TENANTS[0], endpoint=ENDPOINT, budget_ms=1_000).degraded
    degraded = 0

    def is_back() -> bool:
        nonlocal degraded
        degraded += sum(limiter.peek(tenant=tenant, endpoint=ENDPOINT).degraded for tenant in others[:5])
        return not limiter.check(tenant=TENANTS[0], endpoint=ENDPOINT, budget_ms=1_000).degraded

    until(is_back)
    assert degraded == 0
    assert {tenant: limiter.peek(tenant=tenant, endpoint=ENDPOINT).remaining for tenant in others} == limits_left
    assert limiter.breaker.state is BreakerState.CLOSED


def forget(limiter: Either, server: SpareValkey, heir: SpareValkey) -> None:
    """As a map does in which another server has all that this one had."""
    heirs = SlotMap([(0, 16_383, Place("127.0.0.1", heir.port))])
    place = Place("127.0.0.1", server.port)
    if isinstance(limiter, OnThreads):
        cluster = limiter.limiter._store
        assert isinstance(cluster, Cluster)
        until(lambda: len(cluster._node(place)._pool._waiting) == CALLERS - 1)
        cluster._install(heirs)
        return
    pipeline = limiter.limiter._pipeline
    assert isinstance(pipeline, ClusterPipeline)
    until(lambda: (stream := pipeline.node(place)._stream) is not None and len(stream.pending) == CALLERS)

    async def install() -> None:
        unsent = [asyncio.ensure_future(limiter.limiter.check(tenant=TENANT, endpoint=ENDPOINT)) for _ in range(2)]
        await asyncio.sleep(0)
        pipeline._install(heirs)
        assert not any(each.done() for each in unsent)

    limiter.run(install())


def test_calls_under_way_are_answered_although_their_server_leaves_the_map(
    store: RedisCluster, cluster: SpareCluster, make_limiter: MakeLimiter
) -> None:
    """What it was sent, it answers; what still waited goes to whoever owns the slot."""
    limiter = make_limiter(cluster.url, connections=1)
    ask_all(limiter)
    owner = cluster.owner_of(keys.tenant_prefix(TENANT))
    other = next(node for node in cluster.primaries() if node is not owner)
    told: list[Decision] = []
    threads = [
        threading.Thread(target=lambda: told.append(limiter.check(tenant=TENANT, endpoint=ENDPOINT)))
        for _ in range(CALLERS)
    ]
    cluster.on(owner, "CLIENT", "PAUSE", 60_000, "WRITE")
    try:
        for thread in threads:
            thread.start()
        forget(limiter, owner, other)
    finally:
        cluster.on(owner, "CLIENT", "UNPAUSE")
    for thread in threads:
        thread.join(WAIT_S)
    assert [each.failure for each in told] == [None] * CALLERS
    assert limiter.degraded == 0


def test_a_server_that_calls_the_cluster_down_does_not_use_up_the_budget(
    cluster: SpareCluster, limiter: Either
) -> None:
    """It says so for seconds. A caller may have asked it for something else first, such as the owner of a key."""
    ask_all(limiter)
    tenant = TENANTS[0]
    key = keys.tenant_prefix(tenant)
    owner = cluster.owner_of(key)
    cluster.on(owner, "CLUSTER", "DELSLOTS", slot_of(key))
    try:
        began = time.monotonic()
        decisions = limiter.check_many([Check(each, ENDPOINT) for each in TENANTS], budget_ms=60_000)
        assert time.monotonic() - began < 30
    finally:
        cluster.on(owner, "CLUSTER", "ADDSLOTS", slot_of(key))
    assert {each.check.tenant: each.degraded for each in decisions}[tenant]
    assert sum(each.degraded for each in decisions) < 10
    until(lambda: not limiter.check(tenant=tenant, endpoint=ENDPOINT).degraded)


def test_a_plain_url_at_a_node_lets_nobody_through_and_says_which_url_to_write(
    cluster: SpareCluster, store: RedisCluster, make_limiter: MakeLimiter, caplog: pytest.LogCaptureFixture
) -> None:
    node = cluster.primaries()[0]
    limiter = make_limiter(node.url, fail="open")
    decision = limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    assert (decision.allowed, decision.failure) == (False, "closed")
    assert f"write the store's URL as redis+cluster://127.0.0.1:{node.port}" in caplog.text
    with pytest.raises(StoreAddressError, match="is a node of a cluster"):
        limiter.ready(10_000)


def test_a_cluster_url_at_a_single_server_lets_nobody_through_either(
    valkey_server: object, valkey_url: str, make_limiter: MakeLimiter, caplog: pytest.LogCaptureFixture
) -> None:
    limiter = make_limiter(valkey_url.replace("redis://", "redis+cluster://").removesuffix("/0"), fail="open")
    decision = limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    assert (decision.allowed, decision.failure) == (False, "closed")
    assert "is no node of a cluster" in caplog.text


def test_without_any_server_the_failure_mode_decides(make_limiter: MakeLimiter) -> None:
    limiter = make_limiter("redis+cluster://127.0.0.1:1,127.0.0.1:2", fail="open")
    decision = limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    assert (decision.allowed, decision.failure) == (True, "open")
