from __future__ import annotations

from headroom_edge.store.slots import slot_of
from tests.clusters import SpareCluster, SpareSentinels


def test_a_cluster_is_whole_when_it_has_started(cluster: SpareCluster) -> None:
    primaries = cluster.primaries()
    assert len(primaries) == 3
    assert all(len(cluster.replicas_of(node)) == 1 for node in primaries)


def test_a_slot_is_moved_key_by_key_and_back(cluster: SpareCluster) -> None:
    source, target = cluster.primaries()[:2]
    name = next(f"{{{number}}}" for number in range(1_000) if cluster.owner_of(f"{{{number}}}") is source)
    cluster.on(source, "SET", name, "here")
    cluster.move_slot(slot_of(name), source, target)
    assert cluster.on(target, "GET", name) == b"here"
    cluster.move_slot(slot_of(name), target, source)
    assert cluster.on(source, "GET", name) == b"here"


def test_slots_are_moved_atomically(spare_cluster: SpareCluster) -> None:
    source, target = spare_cluster.primaries()[:2]
    spare_cluster.move_atomically([(0, 10)], source, target)
    assert spare_cluster.owner_has([(0, 10)], target)


def test_sentinels_promote_the_replica_on_command(sentinels: SpareSentinels) -> None:
    sentinels.fail_over()
    sentinels.wait_for_promotion()
