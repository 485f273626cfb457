from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import redis

from config.embedded_cluster import form_cluster, node_options, wait_until
from headroom_edge.store.slots import slot_of
from tests.clusters import SpareCluster, SpareSentinels
from tests.valkeys import SpareValkey, free_port


def test_a_cluster_is_whole_when_it_has_started(cluster: SpareCluster) -> None:
    primaries = cluster.primaries()
    assert len(primaries) == 3
    assert all(len(cluster.replicas_of(node)) == 1 for node in primaries)


NO_MEET, EVERY_PACKET = 2, -1  # for DEBUG DROP-CLUSTER-PACKET-FILTER


def test_a_node_that_missed_its_introduction_is_introduced_again(tmp_path: Path) -> None:
    """As one does that the machine stalls at the start: a handshake without an answer is given up after a second."""
    with ExitStack() as stack:
        nodes = [stack.enter_context(lone_node(tmp_path / str(number))) for number in range(3)]
        host, newcomer = (stack.enter_context(node.client()) for node in nodes[::2])
        ask(newcomer, "DEBUG", "DROP-CLUSTER-PACKET-FILTER", NO_MEET)
        with ThreadPoolExecutor(1) as pool:
            forming = pool.submit(form_cluster, [node.port for node in nodes], primaries=3)
            wait_until(lambda: is_told_of(host, nodes[2]), "the host has begun a handshake")
            wait_until(lambda: not is_told_of(host, nodes[2]), "the host has given it up")
            ask(newcomer, "DEBUG", "DROP-CLUSTER-PACKET-FILTER", EVERY_PACKET)
            forming.result()


def lone_node(folder: Path) -> SpareValkey:
    bus = ("--cluster-port", str(free_port()))
    return SpareValkey(folder, extra=(*node_options(0, durable=False, timeout_ms=1_000).extra, *bus))


def ask(node: redis.Redis, *words: object) -> object:
    return cast("Any", node).execute_command(*words)


def is_told_of(host: redis.Redis, node: SpareValkey) -> bool:
    return f":{node.port}@" in str(ask(host, "CLUSTER", "NODES"))


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
