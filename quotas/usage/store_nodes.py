"""The servers that hold the shards: one, or the primaries of a cluster.

The drain talks to each of them by itself, so that one that fails does not hold up the shards of the others. A server
answers for its own slots only: a shard that is moving or has moved answers with an error, and waits for the next drain.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

import redis
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import AskError, ClusterDownError, RedisClusterException, TryAgainError
from redis.sentinel import SentinelConnectionPool

from headroom_edge import keys

# For the replicas to confirm what was just written. They take milliseconds unless something is wrong.
REPLICAS_MS: Final = 2_000
A_YEAR_MS: Final = 365 * 86_400_000
_NOT_HERE: Final = "non local key"  # what a function says when a key that it needs has moved


@dataclass(frozen=True, slots=True)
class StoreNode:
    """A primary and the shards on it. `name` is its address."""

    name: str
    server: redis.Redis
    shards: tuple[int, ...]
    has_all: bool  # it holds `hr:{all}`
    in_cluster: bool = False

    def named_now(self) -> StoreNode:
        """Sentinels may have led it to another server since."""
        return self if self.in_cluster else replace(self, name=_address(self.server))

    def facts(self) -> NodeFacts:
        return NodeFacts.parse(self.server.time(), self.server.info())


@dataclass(frozen=True, slots=True)
class NodeFacts:
    at: datetime  # by its clock
    run_id: str
    started_at: datetime
    replicas: int  # that copy from it now

    @classmethod
    def parse(cls, time: Any, info: Any) -> NodeFacts:
        """From the replies to TIME and INFO. Raises the one that is an error."""
        for reply in (time, info):
            if isinstance(reply, Exception):
                raise reply
        seconds, micros = time
        at = datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=micros)
        return cls(at, run_id_of(info), at - timedelta(seconds=info["uptime_in_seconds"]), _replicas(info))


def _replicas(info: dict[str, Any]) -> int:
    told = [info.get(f"slave{number}") for number in range(int(info.get("connected_slaves", 0)))]
    return sum(isinstance(each, dict) and each.get("state") == "online" for each in told)


def run_id_of(info: dict[str, Any]) -> str:
    run_id = info["run_id"]
    return run_id.decode() if isinstance(run_id, bytes) else str(run_id)


def _as_cluster(client: object) -> RedisCluster | None:
    return client if isinstance(client, RedisCluster) else None


def store_nodes(client: redis.Redis, shards: Iterable[int]) -> list[StoreNode]:
    """Every shard that has an owner once, in a stable order."""
    cluster = _as_cluster(client)
    if cluster is None:
        return [StoreNode(_address(client), client, tuple(shards), has_all=True)]
    owners: dict[str, tuple[ClusterNode, list[int]]] = {}
    for shard in (keys.EVERYONES_SHARD, *shards):
        node = _owner(cluster, shard)
        if node is not None:
            owners.setdefault(node.name, (node, []))[1].append(shard)
    return [_store_node(cluster, node, found) for _, (node, found) in sorted(owners.items())]


def _owner(client: RedisCluster, shard: int) -> ClusterNode | None:
    try:
        return cast("ClusterNode", client.get_node_from_key(keys.shard_prefix(shard)))  # type: ignore[no-untyped-call]
    except RedisClusterException:
        return None


def _store_node(client: RedisCluster, node: ClusterNode, shards: list[int]) -> StoreNode:
    own = tuple(shard for shard in shards if shard != keys.EVERYONES_SHARD)
    server = client.get_redis_connection(node)
    return StoreNode(node.name, server, own, keys.EVERYONES_SHARD in shards, in_cluster=True)


def _address(client: redis.Redis) -> str:
    """Behind Sentinels, of the primary that it last connected to; empty: of none yet."""
    pool: Any = client.connection_pool
    if isinstance(pool, SentinelConnectionPool):
        place = cast("tuple[str, int] | None", pool.master_address)
        return "{}:{}".format(*place) if place else ""
    told = pool.connection_kwargs
    return str(told.get("path") or f"{told.get('host', 'localhost')}:{told.get('port', 6379)}")


@dataclass(frozen=True, slots=True)
class RunIds:
    """Of the nodes of a cluster that answer, with shards or without."""

    primaries: frozenset[str] = frozenset()
    replicas: frozenset[str] = frozenset()


def run_ids(client: redis.Redis) -> RunIds:
    """Empty for a single server."""
    cluster = _as_cluster(client)
    by_role: dict[str, set[str]] = {"master": set(), "slave": set()}
    if cluster is not None:
        for node in cluster.get_nodes():  # type: ignore[no-untyped-call]
            with suppress(redis.RedisError):
                info: Any = cluster.get_redis_connection(node).info()
                by_role[info["role"]].add(run_id_of(info))
    return RunIds(frozenset(by_role["master"]), frozenset(by_role["slave"]))


def look_again(client: redis.Redis) -> None:
    """Asks a cluster anew who owns what. Call it after something was not where it was expected."""
    cluster = _as_cluster(client)
    if cluster is not None:
        with suppress(redis.RedisError, RedisClusterException):
            cluster.nodes_manager.initialize()


def is_moving(error: BaseException) -> bool:
    """Whether a server refused a command because the key's slot is moving, has moved or has no owner just now."""
    if isinstance(error, (AskError, TryAgainError, ClusterDownError)):
        return True
    return isinstance(error, redis.ResponseError) and _NOT_HERE in str(error)


def is_copied(server: redis.Redis, key: str, replicas: int) -> bool:
    """Whether the replicas have everything that was written so far; `key` must exist.

    A batch is stored only after its replicas have set it aside too. A replica that took over without it would still
    have its counters among the current ones, and they would be counted twice.
    """
    if not replicas:
        return True
    pipe = server.pipeline(transaction=False)
    # WAIT is about this connection's own writes. These two change nothing in the end, and need no memory.
    pipe.pexpire(key, A_YEAR_MS)
    pipe.persist(key)
    pipe.wait(replicas, REPLICAS_MS)
    touched, _, copies = pipe.execute(raise_on_error=False)
    return touched == 1 and isinstance(copies, int) and copies >= replicas


def shard_words(shard: int) -> str:
    return keys.ALL if shard == keys.EVERYONES_SHARD else f"shard {shard}"
