"""F8, F8a, F19 on a cluster: each primary is drained by itself, and each count arrives once wherever its slot is."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

import pytest
import redis

from config.data_folders import ROOT
from headroom_edge import keys
from headroom_edge.store.slots import slot_of
from quotas.models import AuditEvent
from quotas.models.usage import BEGINNING, DrainBatch, DrainState, GapRecord
from quotas.publishing import store
from quotas.usage import store_nodes
from quotas.usage.drain import drain
from tests.clusters import SpareCluster
from tests.processes import environment
from tests.quotas.usage.counters import REPLICAS_MS, SHARDS, Hit, count, expected, in_postgres, in_redis
from tests.sweeps import first_of
from tests.valkeys import SpareValkey

pytestmark = pytest.mark.django_db(transaction=True)

STEPS = ("taken", "read", "registered", "added", "committed", "done")
MOVED = 5  # the shard whose slot moves in these tests


def some_hits(number: int, seed: object = 1) -> list[Hit]:
    chance = random.Random(str(seed))
    return [Hit(chance.randint(1, 200), outcome=chance.choice("ad"), limit=3) for _ in range(number)]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica on a busy machine may take long to confirm a batch, which would then wait for the next drain."""
    monkeypatch.setattr(store_nodes, "REPLICAS_MS", REPLICAS_MS)


@pytest.fixture
def client(cluster: SpareCluster) -> Iterator[redis.Redis]:
    with store.connect(cluster.url, as_text=False, patience_seconds=120) as found:
        yield found


def gaps() -> list[GapRecord]:
    """Without the one that everything begins with."""
    return list(GapRecord.objects.exclude(start=BEGINNING))


def shards_on(cluster: SpareCluster, node: SpareValkey) -> list[int]:
    told = cast("list[list[Any]]", cluster.on(node, "CLUSTER", "SLOTS"))
    own = [(first, last) for first, last, primary, *_ in told if primary[1] == node.port]
    slots = {shard: slot_of(keys.shard_prefix(shard)) for shard in range(SHARDS)}
    return [shard for shard, slot in slots.items() if any(first <= slot <= last for first, last in own)]


def drain_all(client: redis.Redis) -> None:
    """Several times, because a drain may find a shard elsewhere, or only finish a batch that was waiting."""
    for _ in range(5):
        summary = drain(client)
        if not summary.batches and not summary.waiting:
            return
    pytest.fail(f"there is still something to drain: {summary}")


def test_a_drain_of_a_cluster_has_what_was_counted(client: redis.Redis, cluster: SpareCluster) -> None:
    hits = some_hits(2_000)
    count(client, hits)
    drain(client)
    assert in_postgres() == expected(hits)
    assert not in_redis(client)
    assert not gaps()
    seen = {(batch.shard, batch.run_id) for batch in DrainBatch.objects.all()}
    for node in cluster.primaries():
        with node.client() as server:
            run_id = server.info("server")["run_id"]
        assert {shard for shard, owner in seen if owner == run_id} == set(shards_on(cluster, node))


def test_what_belongs_to_no_shard_is_drained_from_its_owner(client: redis.Redis) -> None:
    second = f"{client.time()[0]:08x}"
    client.rpush(f"{keys.ALL}:a", f"{second} 2 0:1 rides:get")
    client.hset(f"{keys.ALL}:u", "n", 1)
    client.hset(keys.key_uses(), "abcdefgh12 500000", 3)
    drain(client)
    assert sorted(DrainBatch.objects.filter(shard__lt=0).values_list("shard", flat=True)) == [-2, -1]
    assert not client.exists(keys.key_uses_batch())
    assert not client.exists(keys.observations_batch())


# `test_drain_killed.py` does the same on a single server.
@pytest.mark.sweep
def test_drains_killed_at_any_step_lose_and_double_nothing(
    client: redis.Redis, cluster: SpareCluster, valkey_url: str
) -> None:
    command = [sys.executable, "-m", "tests.quotas.usage.doomed_drains"]
    env, pipe = environment(valkey_url, DRAINED_URL=cluster.url), subprocess.PIPE
    with subprocess.Popen(command, env=env, text=True, stdin=pipe, stdout=pipe, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        hits: list[Hit] = []
        for step in STEPS:
            some = some_hits(300, step)
            count(client, some)
            hits += some
            print(step, file=process.stdin, flush=True)
            assert process.stdout.readline() == f"{step} killed\n"
            assert in_postgres() + in_redis(client) == expected(hits), step
            drain(client)
            assert in_postgres() == expected(hits), step
            assert not in_redis(client), step
        process.communicate(timeout=300)
    assert not gaps()


def test_two_drains_at_once_store_each_batch_once(client: redis.Redis, cluster: SpareCluster) -> None:
    hits = some_hits(500)
    count(client, hits)

    ran: list[str] = []

    def observe(name: str) -> None:
        if name == "taken" and not ran:
            ran.append(name)
            with store.connect(cluster.url, as_text=False) as second:
                drain(second)
                count(second, hits)

    drain(client, on_step=observe)
    drain_all(client)
    assert in_postgres() == expected([*hits, *hits])


def moving_hits() -> list[Hit]:
    return [Hit(tenant, shard=MOVED, outcome=outcome) for tenant in range(1, 6) for outcome in "ad"]


@pytest.fixture
def other(cluster: SpareCluster) -> Iterator[SpareValkey]:
    """A primary that has not got the moving shard; the shard goes back in the end."""
    slot, owner = slot_of(keys.shard_prefix(MOVED)), cluster.owner_of(keys.shard_prefix(MOVED))
    target = next(node for node in cluster.primaries() if node.port != owner.port)
    yield target
    if cluster.owner_of(keys.shard_prefix(MOVED)).port == target.port:
        cluster.on(owner, "CLUSTER", "SETSLOT", slot, "STABLE")
        cluster.move_slot(slot, target, owner)


@pytest.mark.parametrize("step", first_of(["registered", "taken", "committed"]))
def test_a_slot_that_moves_key_by_key_under_a_drain(
    client: redis.Redis, cluster: SpareCluster, other: SpareValkey, step: str
) -> None:
    hits = [*some_hits(200), *moving_hits()]
    drain(client)
    count(client, hits)
    owner, slot = cluster.owner_of(keys.shard_prefix(MOVED)), slot_of(keys.shard_prefix(MOVED))
    move_under(client, step, lambda: cluster.move_slot(slot, owner, other))
    assert in_postgres() + in_redis(client) == expected(hits)
    drain_all(client)
    assert in_postgres() == expected(hits)
    assert not in_redis(client)
    assert not gaps()
    assert AuditEvent.objects.get(kind="store_resharded").detail["shards"] == [MOVED]
    assert not AuditEvent.objects.filter(kind="store_failover").exists()


def move_under(client: redis.Redis, step: str, move: Callable[[], None]) -> None:
    """Moves when the drain has come to this step with the batch of the shard that moves."""
    moved: list[str] = []

    def observe(name: str) -> None:
        if name == step and not moved and client.exists(keys.usage_batch(MOVED)):
            moved.append(name)
            move()

    drain(client, on_step=observe)
    assert moved


def test_a_slot_that_stays_half_moved_waits(client: redis.Redis, cluster: SpareCluster, other: SpareValkey) -> None:
    """At each boundary between two keys a drain takes everything, nothing, or leaves it for later."""
    owner, slot = cluster.owner_of(keys.shard_prefix(MOVED)), slot_of(keys.shard_prefix(MOVED))
    drain(client)
    count(client, moving_hits())
    with owner.client() as server:
        server.fcall("hr_drain", 1, keys.shard_prefix(MOVED), "TAKE", "0" * 32)
    count(client, moving_hits())
    hits = [*moving_hits(), *moving_hits()]
    cluster.begin_move(slot, owner, other)
    for name in sorted(cluster.keys_in(slot, owner)):
        cluster.move_keys(owner, other, name)
        drain(client)
    cluster.end_move(slot, owner, other)
    drain_all(client)
    assert in_postgres() == expected(hits)
    assert not gaps()


def test_slots_that_move_atomically_under_a_drain(spare_cluster: SpareCluster) -> None:
    cluster, hits = spare_cluster, [*some_hits(200), *moving_hits()]
    slot = slot_of(keys.shard_prefix(MOVED))
    with store.connect(cluster.url, as_text=False, patience_seconds=120) as client:
        drain(client)
        for step in ("taken", "committed"):
            owner = cluster.owner_of(keys.shard_prefix(MOVED))
            target = next(node for node in cluster.primaries() if node.port != owner.port)
            count(client, hits)
            before = in_postgres()
            move_under(client, step, partial(cluster.move_atomically, [(slot, slot)], owner, target))
            drain_all(client)
            assert in_postgres() == before + expected(hits)
            assert not in_redis(client)
        check_a_killed_primary(cluster, client)


def check_a_killed_primary(cluster: SpareCluster, client: redis.Redis) -> None:
    """Part of the test above, because a cluster takes long to start."""
    assert not gaps()
    before, hits = in_postgres(), some_hits(400, "before")
    dead, *rest = cluster.primaries()
    lost = shards_on(cluster, dead)
    (heir,) = cluster.replicas_of(dead)
    last = DrainState.objects.get().drained_of(lost)
    with cluster.without_failover(dead):
        count(client, hits)
        drain(client, on_step=partial(kill_when_taken, dead))
        assert not dead.is_running
        others = [hit for hit in hits if hit.tenant % SHARDS not in lost]
        assert in_postgres() == before + expected(others)
        more = [hit for hit in some_hits(400, "meanwhile") if hit.tenant % SHARDS not in lost]
        count_on(cluster, rest, more)
        assert drain(client).waiting == len(lost)
        assert in_postgres() == before + expected([*others, *more])
        assert not gaps()
    cluster.wait_for(lambda: is_owner(cluster, heir), "the replica is the primary")
    with store.connect(cluster.url, as_text=False) as fresh:
        drain_all(fresh)
        assert not in_redis(fresh)
    # The replica had confirmed the batch before the primary died, so nothing of it is lost.
    assert in_postgres() == before + expected([*hits, *more])
    (gap,) = gaps()
    assert (gap.start, gap.shards) == (last, lost)
    assert f"Counts of {len(lost)} of {SHARDS} shards may be missing." in gap.words
    event = AuditEvent.objects.get(kind="store_failover")
    assert event.detail["node"] == f"127.0.0.1:{heir.port}"
    assert event.detail["former"] == [f"127.0.0.1:{dead.port}"]
    assert event.detail["shards"] == lost


def kill_when_taken(node: SpareValkey, step: str) -> None:
    if step == "taken" and node.is_running:
        with node.client() as server:
            has_batch = bool(server.keys("hr:*:ub"))
        if has_batch:
            node.kill()


def count_on(cluster: SpareCluster, nodes: Iterable[SpareValkey], hits: list[Hit]) -> None:
    """Each on its own server: a client of the cluster would look for the dead one."""
    for node in nodes:
        own = set(shards_on(cluster, node))
        with node.client() as server:
            count(server, [hit for hit in hits if hit.tenant % SHARDS in own])


def is_owner(cluster: SpareCluster, heir: SpareValkey) -> bool:
    return any(node.port == heir.port for node in cluster.primaries()) and all(
        b"cluster_state:ok" in cluster_info(cluster, node) for node in cluster.primaries()
    )


def cluster_info(cluster: SpareCluster, node: SpareValkey) -> bytes:
    told = cluster.on(node, "CLUSTER", "INFO")
    return told if isinstance(told, bytes) else str(told).encode()
