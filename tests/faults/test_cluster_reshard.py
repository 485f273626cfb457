"""F8: slots move from one primary to another under load, key by key and all at once.

Nothing that servers of a cluster say to each other reaches a caller, and nobody is charged wrongly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from redis.cluster import RedisCluster

from headroom_edge import keys
from headroom_edge.store.slots import slot_of
from tests.clusters import SpareCluster
from tests.faults.cluster_load import Crowd, Fleet, counts, listen
from tests.headroom_edge.limiter.both import MakeLimiter, OnCallbacks, OnLoop, OnThreads
from tests.headroom_edge.limiter.world import ENDPOINT, configuration, limit, many_tenants, publish
from tests.sweeps import first_of
from tests.valkeys import SpareValkey

LIMIT = 20
TENANTS = [f"t{number}" for number in range(9)]
PER_KEY = limit("daily", "fixed_window", "key", limit=LIMIT, window="1d", on_failure="closed")
Move = Callable[[SpareCluster, list[int], SpareValkey, SpareValkey], None]


@pytest.fixture
def published(cluster: SpareCluster) -> SpareCluster:
    """Every subject of every tenant has the same small limit."""
    with cluster.client() as client:
        publish(client, many_tenants(configuration(PER_KEY), len(TENANTS)))
        client.wait(1, 60_000, target_nodes=RedisCluster.PRIMARIES)
    return cluster


def slots_at(cluster: SpareCluster, node: SpareValkey) -> list[int]:
    """Slots of the tenants that this primary serves."""
    prefixes = {keys.tenant_prefix(tenant) for tenant in TENANTS}
    return sorted(slot_of(prefix) for prefix in prefixes if cluster.owner_of(prefix) is node)


def key_by_key(cluster: SpareCluster, slots: list[int], source: SpareValkey, target: SpareValkey) -> None:
    for slot in slots:
        cluster.begin_move(slot, source, target)
        while names := cluster.keys_in(slot, source):
            cluster.move_keys(source, target, *names[:2])
        cluster.end_move(slot, source, target)


def atomically(cluster: SpareCluster, slots: list[int], source: SpareValkey, target: SpareValkey) -> None:
    for slot in slots:
        cluster.move_atomically([(slot, slot)], source, target)


def there_and_back(cluster: SpareCluster, fleet: Fleet, move: Move, rounds: int) -> None:
    source, target, *_ = cluster.primaries()
    slots = slots_at(cluster, source)
    assert slots
    for _ in range(rounds):
        for a, b in ((source, target), (target, source)):
            move(cluster, slots, a, b)
            fleet.wait(20)


@pytest.mark.parametrize("move", first_of([key_by_key, atomically]))
def test_slots_that_move_under_load_charge_nobody_wrongly(published: SpareCluster, tmp_path: Path, move: Move) -> None:
    fleet = Fleet(published.url, tmp_path / "fleet", Crowd(TENANTS, limit=LIMIT, budget_ms=10_000))
    moving = [name for name in TENANTS if published.owner_of(keys.tenant_prefix(name)) is published.primaries()[0]]
    others = [name for name in TENANTS if name not in moving]
    with fleet.running():
        there_and_back(published, fleet, move, 1)
        fleet.wait(1_200)
    fleet.assert_nothing_internal_surfaced()
    assert fleet.wrong_charges(published) == []
    assert fleet.degraded(others) == []
    assert fleet.full() > len(TENANTS), "limits were reached"
    assert not {"unknown_tenant", "not_ready"} & {each.reason for each in fleet.told}


@pytest.mark.parametrize("make_limiter", first_of([OnThreads, OnLoop, OnCallbacks]), indirect=True)
def test_a_slot_that_stays_half_moved_opens_no_breaker_and_leaves_no_doubt(
    published: SpareCluster, make_limiter: MakeLimiter
) -> None:
    """A command that is repeated until its budget ends must not be sent when its reply cannot come in time."""
    limiter = make_limiter(published.url)
    assert limiter.ready(60_000)
    causes: Counter[str] = Counter()
    listen(limiter.core, causes)
    prefix = keys.tenant_prefix(TENANTS[0])
    source = published.owner_of(prefix)
    target = next(node for node in published.primaries() if node is not source)
    limiter.check(tenant=TENANTS[0], endpoint=ENDPOINT, subject={"key": "known"})
    published.begin_move(slot_of(prefix), source, target)
    published.move_keys(source, target, keys.tenants(keys.shard_of(TENANTS[0])))
    for _ in range(2):
        limiter.at_once(6, tenant=TENANTS[0], endpoint=ENDPOINT, subject={"key": "known"}, budget_ms=10_000)
    key_by_key(published, [slot_of(prefix)], source, target)
    key_by_key(published, [slot_of(prefix)], target, source)
    assert causes == {"the slot was moving for as long as the budget lasted": 12}
    assert limiter.breaker.opened == 0
    assert not limiter.check(tenant=TENANTS[0], endpoint=ENDPOINT, subject={"key": "known"}).degraded
    assert counts(published, [(TENANTS[0], "known")], LIMIT) == {(TENANTS[0], "known"): 2}


@pytest.mark.faults_long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("budget_ms", [20, 1_000])
@pytest.mark.parametrize("move", [key_by_key, atomically])
def test_slots_that_move_again_and_again(
    published: SpareCluster, tmp_path: Path, move: Move, budget_ms: int, figures: Callable[[str], None]
) -> None:
    crowd = Crowd(TENANTS, subjects=60, limit=LIMIT, budget_ms=budget_ms)
    fleet = Fleet(published.url, tmp_path / "fleet", crowd, count=3)
    moving = [name for name in TENANTS if published.owner_of(keys.tenant_prefix(name)) is published.primaries()[0]]
    others = [name for name in TENANTS if name not in moving]
    with fleet.running():
        there_and_back(published, fleet, move, 10)
    wrong = fleet.wrong_charges(published)
    new = [each for each in fleet.degraded(moving) if each.is_new]
    figures(
        f"10 rounds there and back, {len(fleet.told)} answers within {budget_ms} ms, {fleet.full()} subjects at their "
        f"limit, wrong charges {len(wrong)}, degraded {len(fleet.degraded(moving))} of those that moved "
        f"({len(new)} of new subjects) and {len(fleet.degraded(others))} of others, "
        f"mostly {fleet.causes.most_common(3)}"
    )
    fleet.assert_nothing_internal_surfaced()
    assert wrong == []
    assert fleet.full() > len(TENANTS)
    if budget_ms == 1_000:  # a shorter one may end because the machine is busy
        assert fleet.degraded(others) == []
