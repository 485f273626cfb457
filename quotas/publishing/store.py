"""The platform's connection to Redis, and its requirements on the server.

Code that gets a client works on one server, behind Sentinels and on a cluster alike, if each of its commands has keys
of one shard only. What concerns servers and not keys is asked of each of `primaries`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar, cast

import redis
from redis.backoff import ExponentialBackoff
from redis.cluster import ClusterNode
from redis.connection import SSLConnection
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool

from headroom_edge import keys
from headroom_edge.lua_library import ensure_loaded
from headroom_edge.store.address import Address, ClusterAddress, SentinelAddress, parse_url
from quotas.publishing.cluster_client import NOT_A_CLUSTER, Cluster, cluster_errors, is_moving

TIMEOUT_SECONDS = 5.0
RETRIES = 2
SECOND_US = 1_000_000
NO_EVICTION = "noeviction"
TOOL_SECONDS: Final = 5.0  # how long a command for people waits for a slot that moves
TOOL_PAUSE_SECONDS: Final = 0.1


Client = redis.Redis
StoreError = redis.RedisError
Result = TypeVar("Result")
Name = TypeVar("Name")


class UnfitServerError(RuntimeError):
    """The server's settings would make limits unreliable; the message says what to change."""


class WrongAddressError(UnfitServerError, redis.RedisError):
    """The URL is one of a single server and the server is a cluster's node, or the other way round."""


class PartialError(redis.RedisError):
    """It failed for some shards. What could be done for the others is done."""

    def __init__(self, errors: Mapping[int, Exception], shards: int) -> None:
        reasons = list(dict.fromkeys(map(first_line, errors.values())))
        more = f" (and {len(reasons) - 1} other errors)" if len(reasons) > 1 else ""
        super().__init__(f"{len(errors)} of {shards} shards failed: {reasons[0]}{more}")
        self.errors = errors


def connect(
    url: str, *, patience_seconds: float = TIMEOUT_SECONDS, as_text: bool = True, retries: int = RETRIES
) -> redis.Redis:
    """`as_text`: replies are text, not bytes. Raises StoreError if it is a cluster of which no node answers."""
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
    options["retry"] = Retry(ExponentialBackoff(cap=0.2, base=0.05), retries)
    if isinstance(address, SentinelAddress):
        return _watched(address, options)
    return redis.Redis.from_url(url, **options)


def is_cluster_url(url: str) -> bool:
    return isinstance(parse_url(url), ClusterAddress)


def _cluster(address: ClusterAddress, options: Mapping[str, Any]) -> Cluster:
    first, *_ = address.nodes
    try:
        with cluster_errors():
            return Cluster(
                startup_nodes=[_node(node) for node in address.nodes],
                # A slot without an owner concerns its own keys only.
                require_full_coverage=False,
                **_login(first),
                **options,
            )
    except redis.ConnectionError as error:
        if NOT_A_CLUSTER not in str(error):
            raise
        scheme = "rediss" if first.tls else "redis"
        raise WrongAddressError(
            f"{first} is a single server, not a node of a cluster: write {scheme}://{first} as its URL"
        ) from error


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


def as_cluster(client: redis.Redis) -> Cluster | None:
    return client if isinstance(client, Cluster) else None  # type: ignore[unreachable]


def primaries(client: redis.Redis) -> list[tuple[str, redis.Redis]]:
    """Address and client of each server that owns keys."""
    cluster = as_cluster(client)
    if cluster is None:
        return [(address_of(client), client)]
    nodes: list[ClusterNode] = cluster.get_primaries()  # type: ignore[no-untyped-call]
    nodes = sorted(nodes, key=lambda node: str(node.name))
    return [(str(node.name), cluster.get_redis_connection(node)) for node in nodes]


def address_of(client: redis.Redis) -> str:
    """Of a single server, for people."""
    pool = client.connection_pool
    if isinstance(pool, SentinelConnectionPool):
        host, port = pool.get_master_address()  # type: ignore[no-untyped-call]
        return f"{host}:{port}"
    options = pool.connection_kwargs
    return str(options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}")


def by_node(client: redis.Redis, shards: Iterable[int]) -> list[tuple[redis.Redis, list[int]]]:
    """The shards (or `keys.EVERYONES_SHARD`) of each primary. Raises ClusterDownError for one that nobody owns."""
    cluster = as_cluster(client)
    if cluster is None:
        return [(client, list(shards))]
    found: dict[str, tuple[redis.Redis, list[int]]] = {}
    for shard in shards:
        node = cluster.owner_of(keys.shard_prefix(shard))
        found.setdefault(str(node.name), (cluster.get_redis_connection(node), []))[1].append(shard)
    return list(found.values())


def ask_each(client: redis.Redis, calls: Mapping[Name, Sequence[Any]]) -> tuple[dict[Name, Any], dict[Name, Exception]]:
    """Sends one command each in one round trip; returns the replies, and the errors of those that failed.

    Raises StoreError if a single server does not answer at all.
    """
    with client.pipeline(transaction=False) as pipe:
        for words in calls.values():
            pipe.execute_command(*words)  # type: ignore[no-untyped-call]
        found = dict(zip(calls, pipe.execute(raise_on_error=False), strict=True))
    errors = {name: reply for name, reply in found.items() if isinstance(reply, Exception)}
    return {name: reply for name, reply in found.items() if name not in errors}, errors


def patiently(action: Callable[[], Result], seconds: float = TOOL_SECONDS) -> Result:
    """For commands that run once: repeats the action while a slot moves or a replica takes over."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return action()
        except redis.RedisError as error:
            if time.monotonic() > deadline or not _passes(error):
                raise
        time.sleep(TOOL_PAUSE_SECONDS)


def _passes(error: Exception) -> bool:
    """Whether it may be over in a moment."""
    if isinstance(error, PartialError):
        return all(map(_passes, error.errors.values()))
    return is_moving(error) or isinstance(error, redis.ConnectionError | redis.TimeoutError)


def prepare(client: redis.Redis) -> None:
    """Raises UnfitServerError or, for a server that is too old, LibraryError; loads the Lua library if needed.

    Of a cluster, a node that is away is left to the reconciler, unless all are.
    """
    refuse_wrong_address(client)
    away: list[redis.RedisError] = []
    servers = primaries(client)
    for name, server in servers:
        try:
            _refuse_eviction(name, server)
            ensure_loaded(server)
        except (redis.ConnectionError, redis.TimeoutError) as error:
            away.append(error)
    if len(away) == len(servers):
        raise away[0] if away else redis.ConnectionError("the cluster has no primary")


def refuse_wrong_address(client: redis.Redis) -> None:
    """A node of a cluster answers for its own shards only, so one server's client would let everybody through."""
    if as_cluster(client) is None and is_clustered(client):
        address = address_of(client)
        is_socket = address.startswith("/")
        place = "HOST:PORT" if is_socket else address
        scheme = "rediss" if issubclass(client.connection_pool.connection_class, SSLConnection) else "redis"
        raise WrongAddressError(
            f"{address} is a node of a cluster, and the URL is one of a single server: write {scheme}+cluster://{place}"
        )


def _refuse_eviction(name: str, server: redis.Redis) -> None:
    policy = eviction_policy(server)
    if policy != NO_EVICTION:
        raise UnfitServerError(
            f"maxmemory-policy is {policy} on {name}, so it may drop counters and plans when memory runs short: "
            f"set it to {NO_EVICTION} (CONFIG SET maxmemory-policy {NO_EVICTION}, and in the server's configuration)"
        )


def eviction_policy(server: redis.Redis) -> str:
    return str(info(server, "memory").get("maxmemory_policy", NO_EVICTION))


def is_clustered(client: redis.Redis) -> bool:
    if as_cluster(client) is not None:
        return True
    return bool(int(info(client, "cluster").get("cluster_enabled", 0)))


def info(server: redis.Redis, section: str) -> dict[str, Any]:
    """Of one server, so never of a cluster's client."""
    return server.info(section)


def unanswered(client: redis.Redis) -> list[tuple[str, str]]:
    """The primaries of a cluster that do not answer, and why. A single server raises instead."""
    if as_cluster(client) is None:
        client.ping()
        return []
    servers = primaries(client)
    # All at once, so that several that are away take no longer than one.
    with ThreadPoolExecutor(max(1, len(servers))) as pool:
        troubles = list(pool.map(_trouble, [server for _, server in servers]))
    return [(name, trouble) for (name, _), trouble in zip(servers, troubles, strict=True) if trouble]


def _trouble(server: redis.Redis) -> str:
    """Empty: it answers."""
    try:
        server.ping()
    except redis.RedisError as error:
        return first_line(error)
    return ""


def is_gone(client: redis.Redis) -> bool:
    """Whether no node of a cluster answers any more: they may have other addresses now, so connect anew."""
    return as_cluster(client) is not None and len(unanswered(client)) == len(primaries(client))


def now_us(client: redis.Redis) -> int:
    """Redis time, which all Lua decisions use. In a cluster: of the node of `hr:{all}`, or of any that answers."""
    cluster = as_cluster(client)
    if cluster is None:
        return server_us(client)
    try:
        seconds, micros = cluster.at(keys.ALL, "TIME")
    except redis.RedisError:
        return _time_of_any(client)
    return int(seconds) * SECOND_US + int(micros)


def _time_of_any(client: redis.Redis) -> int:
    error = redis.RedisError("the cluster has no primary")
    for _, server in primaries(client):
        try:
            return server_us(server)
        except redis.RedisError as failure:
            error = failure
    raise error


def server_us(server: redis.Redis) -> int:
    seconds, micros = server.time()
    return seconds * SECOND_US + micros


def delete_many(client: redis.Redis, names: Sequence[str]) -> None:
    """The keys may lie in several slots."""
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.delete(name)
        pipe.execute()


def exist_many(client: redis.Redis, names: Sequence[str]) -> int:
    """How many of the keys exist. They may lie in several slots."""
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.exists(name)
        return sum(pipe.execute())


def shard_numbers(client: redis.Redis, shards: int) -> list[int]:
    """All shards. In a cluster also the home of global limits, which has plans of its own there."""
    return [*range(shards), *([] if as_cluster(client) is None else [keys.EVERYONES_SHARD])]


def first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
