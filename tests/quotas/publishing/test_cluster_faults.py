"""Nodes of a cluster that die, come back empty or join; and the failover of a primary that Sentinels watch."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
import redis
from django.conf import settings
from django.test import Client

from headroom_edge import keys
from headroom_edge.lua_library import VERSION, stored_version
from headroom_edge.store.slots import slot_of
from quotas.models import Heartbeat
from quotas.models.jobs import PUBLISH_TROUBLE, PUBLISHER
from quotas.publishing import nodes, store
from quotas.publishing.bypass_switches import switches_read
from quotas.publishing.publisher import Publisher
from quotas.publishing.reconciler import Reconciler
from quotas.publishing.shards import Shards
from tests.clusters import SpareCluster, SpareSentinels
from tests.quotas.publishing.conftest import Run
from tests.quotas.publishing.worlds import differences, publisher_for, quota, tier_edit, wait_until
from tests.valkeys import SpareValkey

PLACES = (*range(settings.HEADROOM_SHARDS), keys.EVERYONES_SHARD)  # with the home of global limits


def shards_of(cluster: SpareCluster, node: SpareValkey) -> set[int]:
    return {s for s in PLACES if cluster.owner_of(keys.shard_prefix(s)) is node}


def publishes(publisher: Publisher) -> bool:
    try:
        publisher.publish()
    except redis.RedisError:
        return False
    return True


def revisions(text: redis.Redis) -> dict[int, int]:
    """The home of global limits, whose content no edit here changes, is left out."""
    found = Shards(text, settings.HEADROOM_SHARDS).read_reachable().items()
    return {shard: held.revision for shard, held in found if shard != keys.EVERYONES_SHARD}


def test_a_dead_primary_holds_up_nobody_else_and_its_replica_is_published_to(
    spare_cluster: SpareCluster, world: None
) -> None:
    with store.connect(spare_cluster.url) as text:
        publisher = publisher_for(text)
        publisher.publish()
        before = publisher.applied
        # Not the first node, which the cluster is asked about its slots.
        dead = spare_cluster.primaries()[2]
        away = shards_of(spare_cluster, dead)
        with spare_cluster.without_failover(dead):
            dead.kill()
            tier_edit(11)
            with pytest.raises(store.PartialError) as failed:
                publisher.publish()
            assert set(failed.value.errors) == away
            assert str(dead.port) in str(failed.value)
            assert publisher.applied == before
            found = revisions(text)
            assert set(found) == set(range(settings.HEADROOM_SHARDS)) - away
            assert set(found.values()) == {publisher.image.revision}
            with pytest.raises(store.PartialError):
                Reconciler(publisher, text).check_shards()
            assert switches_read(text, settings.HEADROOM_SHARDS) == []
            assert [name for name, _ in store.unanswered(text)] == [f"127.0.0.1:{dead.port}"]
        wait_until(lambda: publishes(publisher), "the replica has taken over")
        assert differences(text) == []
        assert publisher.applied == publisher.image.revision


def test_a_replica_that_was_promoted_empty_is_repaired(spare_cluster: SpareCluster, world: None) -> None:
    with store.connect(spare_cluster.url) as text:
        publisher = publisher_for(text)
        publisher.publish()
        primary = spare_cluster.primaries()[1]
        (replica,) = spare_cluster.replicas_of(primary)
        lost = shards_of(spare_cluster, primary)
        for node in (primary, replica):
            node.kill()
        replica.start()
        spare_cluster.wait_for(lambda: takes_over(spare_cluster, replica), "the empty replica is the primary")
        spare_cluster.wait_for(lambda: shards_of(spare_cluster, replica) == lost, "the others know it")
        reconciler = Reconciler(publisher, text)
        wait_until(lambda: is_checked(reconciler), "the shards are whole")
        with replica.client() as server:
            assert stored_version(server) == VERSION
        assert differences(text) == []


def takes_over(cluster: SpareCluster, replica: SpareValkey) -> bool:
    with suppress(redis.ResponseError):  # it is the primary already
        cluster.on(replica, "CLUSTER", "FAILOVER", "TAKEOVER")
    return replica in cluster.primaries()


def is_checked(reconciler: Reconciler) -> bool:
    try:
        reconciler.check_shards()
    except redis.RedisError:
        return False
    return True


def test_a_slot_that_is_half_moved_holds_up_nobody_else(spare_cluster: SpareCluster, world: None) -> None:
    with store.connect(spare_cluster.url) as text:
        publisher = publisher_for(text)
        publisher.publish()
        shard = keys.shard_of("acme", settings.HEADROOM_SHARDS)
        slot, source = slot_of(keys.shard_prefix(shard)), spare_cluster.owner_of(keys.shard_prefix(shard))
        target = next(node for node in spare_cluster.primaries() if node is not source)
        spare_cluster.begin_move(slot, source, target)
        spare_cluster.move_keys(source, target, keys.config(shard))
        tier_edit(11)
        publishes(publisher)
        newest = publisher.image.revision
        assert {s for s, held in revisions(text).items() if held < newest} <= {shard}
        rest = spare_cluster.keys_in(slot, source)
        if rest:
            spare_cluster.move_keys(source, target, *rest)
        spare_cluster.end_move(slot, source, target)
        wait_until(lambda: publishes(publisher), "the pass after the move")
        wait_until(lambda: is_checked(Reconciler(publisher, text)), "the check after the move")
        assert differences(text) == []
        assert quota(text, "acme") == 11


def test_a_node_that_hangs_is_asked_once_in_a_pass(spare_cluster: SpareCluster, world: None) -> None:
    for node in spare_cluster.nodes:  # so that no replica takes over meanwhile
        spare_cluster.on(node, "CONFIG", "SET", "cluster-node-timeout", 300_000)
    with store.connect(spare_cluster.url) as text:
        publisher_for(text).publish()
    with store.connect(spare_cluster.url, patience_seconds=3) as text:
        publisher = publisher_for(text)
        hung = spare_cluster.primaries()[1]
        away = shards_of(spare_cluster, hung)
        hung.pause()
        tier_edit(11)
        with pytest.raises(redis.RedisError):
            publisher.publish()
        newest = publisher.image.revision
        found = revisions(text)
        assert {found[s] for s in range(settings.HEADROOM_SHARDS) if s not in away} == {newest}
        hung.resume()
        wait_until(lambda: publishes(publisher), "it answers again")
        assert differences(text) == []


def test_a_primary_without_slots_gets_the_library_before_it_gets_slots(
    spare_cluster: SpareCluster, world: None
) -> None:
    with store.connect(spare_cluster.url) as text:
        publisher = publisher_for(text)
        publisher.publish()
        (replica,) = spare_cluster.replicas_of(spare_cluster.primaries()[0])
        spare_cluster.on(replica, "CLUSTER", "RESET", "HARD")
        newcomer, host = replica, spare_cluster.primaries()[0]
        bus = str(spare_cluster.on(newcomer, "CONFIG", "GET", "cluster-port"))
        port = int("".join(filter(str.isdigit, bus)))
        spare_cluster.on(host, "CLUSTER", "MEET", "127.0.0.1", newcomer.port, port)
        spare_cluster.wait_for(
            lambda: f"127.0.0.1:{newcomer.port}" in dict(nodes.library_servers(text)), "the newcomer is known"
        )
        Reconciler(publisher, text).check_shards()
        with newcomer.client() as server:
            assert stored_version(server) == VERSION


def test_the_process_tells_what_it_could_not_publish_and_recovers(
    spare_cluster: SpareCluster, world: None, run: Run, client: redis.Redis, settings: Any
) -> None:
    settings.REDIS_URL = spare_cluster.url
    run("serve", spare_cluster.url)
    wait_until(lambda: detail(PUBLISHER) == "8", "the first publish")
    primary = spare_cluster.primaries()[1]
    (replica,) = spare_cluster.replicas_of(primary)
    for node in (primary, replica):
        node.kill()
    tier_edit(11)
    wait_until(lambda: "shards failed" in detail(PUBLISH_TROUBLE), "its trouble")
    assert detail(PUBLISHER) == "8"
    body = json.loads(Client().get("/healthz").content)
    assert body["published_revision"] == 8
    assert "shards failed" in body["publisher"]
    assert str(primary.port) in body["redis"]
    primary.start()
    wait_until(lambda: detail(PUBLISHER) == "9" and not detail(PUBLISH_TROUBLE), "the edit is published")
    with store.connect(spare_cluster.url) as text:
        assert differences(text) == []


def detail(name: str) -> str:
    return Heartbeat.objects.filter(name=name).values_list("detail", flat=True).first() or ""


def test_the_process_waits_for_a_cluster_that_is_away(spare_cluster: SpareCluster, world: None, run: Run) -> None:
    for node in spare_cluster.nodes:
        node.stop()
    run("serve", spare_cluster.url)
    wait_until(lambda: detail(PUBLISH_TROUBLE) != "", "its trouble")
    for node in spare_cluster.nodes:
        node.start()
    wait_until(lambda: detail(PUBLISHER) == "8" and not detail(PUBLISH_TROUBLE), "the first publish")


def test_the_process_follows_sentinels_to_another_primary(sentinels: SpareSentinels, world: None, run: Run) -> None:
    run("serve", sentinels.url)
    wait_until(lambda: detail(PUBLISHER) == "8", "the first publish")
    sentinels.primary.kill()
    sentinels.wait_for_promotion()
    tier_edit(11)
    wait_until(lambda: detail(PUBLISHER) == "9", "the edit is published")
    with store.connect(sentinels.url) as text:
        assert quota(text, "acme") == 11
        assert differences(text) == []
