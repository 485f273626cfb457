"""The platform's connection to Redis, and its requirements on the server.

Code that gets a client works on one server, behind Sentinels and on a cluster alike, if each of its commands has keys
of one shard only. What concerns servers and not keys is asked of each of `primaries`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import redis
from redis.backoff import ExponentialBackoff
from redis.cluster import ClusterNode, ClusterPipeline, RedisCluster
from redis.exceptions import RedisClusterException
from redis.retry import Retry
from redis.sentinel import Sentinel

from headroom_edge.lua_library import ensure_loaded
from headroom_edge.store.address import Address, ClusterAddress, SentinelAddress, parse_url

TIMEOUT_SECONDS = 5.0
SECOND_US = 1_000_000
NO_EVICTION = "noeviction"


Client = redis.Redis
StoreError = redis.RedisError


class UnfitServerError(RuntimeError):
    """The server's settings would make limits unreliable; the message says what to change."""


def connect(url: str, *, patience_seconds: float = TIMEOUT_SECONDS, as_text: bool = True) -> redis.Redis:
    """`as_text`: replies are text, not bytes."""
    options: dict[str, Any] = {
        "decode_responses": as_text,
        # Any bytes in a field must decode to text, so that the reconciler can compare them.
        "encoding_errors": "surrogateescape",
        "socket_timeout": patience_seconds,
        "socket_connect_timeout": patience_seconds,
    }
    address = parse_url(url)
    if isinstance(address, ClusterAddress):
        # It has every method that is used here, but no common base.
        return cast("redis.Redis", _cluster(address, options))
    options["retry"] = Retry(ExponentialBackoff(cap=0.2, base=0.05), 2)
    if isinstance(address, SentinelAddress):
        return _watched(address, options)
    return redis.Redis.from_url(url, **options)


def _cluster(address: ClusterAddress, options: Mapping[str, Any]) -> RedisCluster:
    first, *_ = address.nodes
    with _cluster_errors():
        return Cluster(
            startup_nodes=[_node(node) for node in address.nodes],
            # A slot without an owner concerns its own keys only.
            require_full_coverage=False,
            **_login(first),
            **options,
        )


def _node(address: Address) -> ClusterNode:
    return ClusterNode(address.host, address.port)  # type: ignore[no-untyped-call]


def _watched(address: SentinelAddress, options: Mapping[str, Any]) -> redis.Redis:
    places = [(each.host, each.port) for each in address.sentinels]
    timeouts = {name: options[name] for name in ("socket_timeout", "socket_connect_timeout")}
    sentinel = Sentinel(places, sentinel_kwargs={**_login(address.sentinels[0]), **timeouts})  # type: ignore[no-untyped-call]
    options = {"db": address.primary.db, **_login(address.primary), **options}
    return cast("redis.Redis", sentinel.master_for(address.name, **options))  # type: ignore[no-untyped-call]


def _login(address: Address) -> dict[str, Any]:
    found: dict[str, Any] = {"username": address.username or None, "password": address.password or None}
    if address.tls is not None:
        found |= {"ssl": True, "ssl_context": address.tls}
    return found


class Cluster(RedisCluster):
    """Raises RedisError only, as the client of a single server does."""

    def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        with _cluster_errors():
            return super().execute_command(*args, **kwargs)  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: Any = None, shard_hint: Any = None) -> Any:
        pipe = super().pipeline(transaction, shard_hint)  # type: ignore[no-untyped-call]
        pipe.__class__ = _Pipeline
        return pipe


class _Pipeline(ClusterPipeline):
    def execute(self, raise_on_error: bool = True) -> list[Any]:
        with _cluster_errors():
            return super().execute(raise_on_error)


@contextmanager
def _cluster_errors() -> Iterator[None]:
    try:
        yield
    except RedisClusterException as error:
        raise redis.ConnectionError(str(error)) from error


def prepare(client: redis.Redis) -> None:
    """Raises UnfitServerError or, for a server that is too old, LibraryError; loads the Lua library if needed."""
    _refuse_eviction(client)
    ensure_loaded(client)


def _refuse_eviction(client: redis.Redis) -> None:
    policy = str(info(client, "memory").get("maxmemory_policy", NO_EVICTION))
    if policy != NO_EVICTION:
        raise UnfitServerError(
            f"maxmemory-policy is {policy}, so the server may drop counters and plans when memory runs short: "
            f"set it to {NO_EVICTION} (CONFIG SET maxmemory-policy {NO_EVICTION}, and in the server's configuration)"
        )


def is_clustered(client: redis.Redis) -> bool:
    return bool(int(info(client, "cluster").get("cluster_enabled", 0)))


def info(client: redis.Redis, section: str) -> dict[str, Any]:
    return client.info(section)


def now_us(client: redis.Redis) -> int:
    """Redis time, which all Lua decisions use."""
    seconds, micros = client.time()
    return seconds * SECOND_US + micros
