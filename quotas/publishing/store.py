"""The publisher's connection to Redis, and its requirements on the server."""

from __future__ import annotations

from typing import Any

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from headroom_edge.lua_library import ensure_loaded

TIMEOUT_SECONDS = 5.0
SECOND_US = 1_000_000
NO_EVICTION = "noeviction"


Client = redis.Redis
StoreError = redis.RedisError


class UnfitServerError(RuntimeError):
    """The server's settings would make limits unreliable; the message says what to change."""


def connect(url: str, *, patience_seconds: float = TIMEOUT_SECONDS) -> redis.Redis:
    # Any bytes in a field must decode to text, so that the reconciler can compare them.
    return redis.Redis.from_url(
        url,
        decode_responses=True,
        encoding_errors="surrogateescape",
        socket_timeout=patience_seconds,
        socket_connect_timeout=patience_seconds,
        retry=Retry(ExponentialBackoff(cap=0.2, base=0.05), 2),
    )


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
