"""The servers of the store, as they report themselves: one row for a single server, all nodes of a cluster."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import redis
from redis.cluster import ClusterNode

from headroom_edge import keys
from headroom_edge.lua_library import VERSION, stored_version
from headroom_edge.store.slots import slot_of
from quotas.publishing import store
from quotas.publishing.cluster_client import Cluster

SKEW_WARNING_US: Final = store.SECOND_US
ONLINE: Final = "online"
FAILED: Final = "fail"


@dataclass(frozen=True, slots=True)
class ListedNode:
    """A node as CLUSTER SHARDS has it."""

    host: str
    port: int
    is_primary: bool
    health: str  # online, loading or fail
    slots: tuple[tuple[int, int], ...]  # ranges of its shard, first and last slot
    primary: str  # its address; its own for a primary

    @property
    def name(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class StoreNode:
    """A server of the store and what it told. `trouble`: why it told nothing; empty: it answered."""

    name: str
    is_primary: bool
    primary: str = ""  # whose replica it is
    trouble: str = ""
    version: str = ""  # of the server, with its name
    slots: tuple[tuple[int, int], ...] = ()
    shards: tuple[int, ...] = ()
    library: int | None = None  # None: not asked, because a replica gets it from its primary
    skew_us: int | None = None  # against this machine
    memory: int | None = None  # bytes in use
    memory_most: int = 0  # 0: as much as the machine has
    evicts: str = ""  # the policy, if it is one that evicts
    needs_all_slots: bool = False  # cluster-require-full-coverage
    replicas: int = 0  # that are connected
    offset: int = 0  # of replication
    lag_bytes: int | None = None  # of a replica behind its primary
    is_linked: bool = True  # a replica's connection to its primary

    @property
    def slot_count(self) -> int:
        return sum(last - first + 1 for first, last in self.slots)

    @property
    def is_library_old(self) -> bool:
        return self.library is not None and self.library < VERSION

    @property
    def is_skewed(self) -> bool:
        return self.skew_us is not None and abs(self.skew_us) > SKEW_WARNING_US

    @property
    def state(self) -> str:
        """One of `STATES`."""
        if self.trouble:
            return "away"
        return "replica" if not self.is_primary else "primary"

    @property
    def warnings(self) -> list[str]:
        return [words for is_so, words in self._checks() if is_so]

    def _checks(self) -> Iterable[tuple[bool, str]]:
        yield bool(self.trouble), f"does not answer: {self.trouble}"
        yield self.is_library_old, f"has library version {self.library}, not {VERSION}; the publisher loads it"
        yield self.is_skewed, f"its clock is {self.skew_words}"
        yield bool(self.evicts), f"maxmemory-policy is {self.evicts}; set it to {store.NO_EVICTION}"
        yield self.needs_all_slots, "cluster-require-full-coverage is yes: one lost node stops all; set it to no"
        yield not self.is_linked, "has no connection to its primary"

    @property
    def skew_words(self) -> str:
        ms = (self.skew_us or 0) // 1_000
        if not ms:
            return "in step"
        size = f"{abs(ms) / 1_000:.1f} s" if abs(ms) >= 1_000 else f"{abs(ms)} ms"
        return f"{size} {'ahead' if ms > 0 else 'behind'}"


STATES: Final = ("primary", "replica", "away")


def listed_nodes(cluster: Cluster) -> list[ListedNode]:
    """All nodes that the cluster knows, as the first node that answers tells. Raises StoreError if none does."""
    error = redis.RedisError("the cluster has no node")
    for node in cluster.get_nodes():  # type: ignore[no-untyped-call]
        try:
            told = cluster.get_redis_connection(node).connection_pool
            return _listed(_raw(told, "CLUSTER", "SHARDS"), str(node.host))
        except redis.RedisError as failure:
            error = failure
    raise error


def _raw(pool: redis.ConnectionPool, *words: str) -> Any:
    """Without redis-py's own parsing, which differs from release to release."""
    connection = pool.get_connection()
    try:
        connection.send_command(*words)  # type: ignore[no-untyped-call]
        return connection.read_response()
    finally:
        pool.release(connection)


def _listed(told: Any, asked: str) -> list[ListedNode]:
    return [node for shard in told for node in _of_shard(_pairs(shard), asked)]


def _of_shard(shard: Mapping[str, Any], asked: str) -> Iterable[ListedNode]:
    numbers = [int(each) for each in shard["slots"]]
    slots = tuple(zip(numbers[::2], numbers[1::2], strict=True))
    rows = [_pairs(node) for node in shard["nodes"]]
    heads = [row for row in rows if row["role"] == "master"]
    # A primary that failed stays listed as one beside its successor.
    head = next((row for row in heads if row["health"] == ONLINE), next(iter(heads), None))
    for row in rows:
        host, port = _place(row, asked)
        primary = ":".join(map(str, _place(head, asked))) if head else ""
        is_primary = row["role"] == "master"
        yield ListedNode(
            host,
            port,
            is_primary,
            str(row["health"]),
            slots if row is head else (),
            primary,
        )


def _place(row: Mapping[str, Any], asked: str) -> tuple[str, int]:
    host = row.get("endpoint") or row.get("ip") or asked
    return str(asked if host == "?" else host), int(row.get("port") or row.get("tls-port") or 0)


def _pairs(words: Any) -> dict[str, Any]:
    if isinstance(words, Mapping):
        return {_text(name): _text(value) for name, value in words.items()}
    return {_text(name): _text(value) for name, value in zip(words[::2], words[1::2], strict=True)}


def _text(word: Any) -> Any:
    return word.decode() if isinstance(word, bytes) else word


def library_servers(client: redis.Redis) -> list[tuple[str, redis.Redis]]:
    """The primaries, and those that own no slot yet: once they do, they must have the library."""
    found = dict(store.primaries(client))
    cluster = store.as_cluster(client)
    for node in listed_nodes(cluster) if cluster else ():
        if cluster and node.is_primary and node.health == ONLINE and node.name not in found:
            found[node.name] = _client_of(cluster, node)
    return list(found.items())


def _client_of(cluster: Cluster, node: ListedNode) -> redis.Redis:
    known = cluster.get_node(node_name=node.name)  # type: ignore[no-untyped-call]
    if known is None:
        known = ClusterNode(node.host, node.port)  # type: ignore[no-untyped-call]
        # Kept, so that its connections are used again and closed with the others.
        cluster.nodes_manager.nodes_cache[node.name] = known
    return cluster.get_redis_connection(known)


def nodes_read(client: redis.Redis, shards: int) -> list[StoreNode]:
    """Primaries first, each followed by its replicas. Raises StoreError if no server answers."""
    cluster = store.as_cluster(client)
    if cluster is None:
        return [_asked(client, StoreNode(store.address_of(client), True, shards=tuple(range(shards))))]
    listed = listed_nodes(cluster)
    in_order = sorted(listed, key=lambda node: (node.primary, not node.is_primary, node.name))
    found = [_node(cluster, node, shards) for node in in_order if not _is_forgotten(node)]
    offsets = {node.name: node.offset for node in found if node.is_primary and not node.trouble}
    return [_with_lag(node, offsets) for node in found]


def _with_lag(node: StoreNode, offsets: Mapping[str, int]) -> StoreNode:
    if node.is_primary or node.trouble or node.primary not in offsets:
        return node
    return replace(node, lag_bytes=max(0, offsets[node.primary] - node.offset))


def _is_forgotten(node: ListedNode) -> bool:
    """A primary that was replaced and never came back: it owns nothing, and its successor has its place."""
    return node.health == FAILED and node.is_primary and not node.slots and node.primary != node.name


def _node(cluster: Cluster, node: ListedNode, shards: int) -> StoreNode:
    about = StoreNode(
        node.name,
        node.is_primary,
        "" if node.is_primary else node.primary,
        slots=node.slots,
        shards=tuple(shard for shard in range(shards) if _owns(node.slots, keys.shard_prefix(shard))),
    )
    if node.health == FAILED:
        return replace(about, trouble="the cluster says that it failed")
    return _asked(_client_of(cluster, node), about)


def _owns(slots: Sequence[tuple[int, int]], key: str) -> bool:
    return any(first <= slot_of(key) <= last for first, last in slots)


def _asked(server: redis.Redis, about: StoreNode) -> StoreNode:
    try:
        began_us = time.time_ns() // 1_000
        told_us = store.server_us(server)
        ended_us = time.time_ns() // 1_000
        facts: dict[str, Any] = server.info("server", "memory", "replication")
        settings = server.config_get("cluster-require-full-coverage")
        library = stored_version(server) if about.is_primary else None
    except (redis.RedisError, OSError) as error:
        if about.primary or about.slots:
            return replace(about, trouble=store.first_line(error))
        raise
    middle_us = (began_us + ended_us) // 2
    # A skew within the time that the question took cannot be told from none.
    skew_us = told_us - middle_us if abs(told_us - middle_us) > ended_us - began_us else 0
    policy = str(facts.get("maxmemory_policy", store.NO_EVICTION))
    return replace(
        about,
        version=_version(facts),
        library=library,
        skew_us=skew_us,
        memory=int(facts.get("used_memory", 0)),
        memory_most=int(facts.get("maxmemory", 0)),
        evicts="" if policy == store.NO_EVICTION else policy,
        needs_all_slots=bool(about.slots) and settings.get("cluster-require-full-coverage") == "yes",
        replicas=int(facts.get("connected_slaves", 0)),
        offset=int(facts.get("master_repl_offset" if about.is_primary else "slave_repl_offset", 0)),
        is_linked=facts.get("role") == "master" or facts.get("master_link_status") == "up",
    )


def _version(facts: Mapping[str, Any]) -> str:
    name = facts.get("server_name", "redis")
    return f"{name} {facts.get('valkey_version') or facts.get('redis_version')}"
