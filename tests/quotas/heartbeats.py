"""Heartbeats as an enforcing process sends them, for what the platform shows of them."""

from __future__ import annotations

import json

import redis

from headroom_edge import keys
from headroom_edge.lua_library import ensure_loaded


def heartbeat(valkey: redis.Redis, name: str, *, host: str = "", **about: object) -> None:
    ensure_loaded(valkey)
    facts = {"host": host or name, "pid": 7, "version": "0.2.0", "degraded": 0, **about}
    valkey.fcall("hr_heartbeat", 1, keys.ALL, name, json.dumps(facts))


def leasing(valkey: redis.Redis, name: str, *endpoints: str, ms: int = 100, more: int = 0, host: str = "") -> None:
    """A process that leased on these endpoints within the last minute."""
    heartbeat(valkey, name, host=host, leases={"ms": ms, "endpoints": list(endpoints), "more": more})


def fall_silent(valkey: redis.Redis, name: str) -> None:
    """As if its last heartbeat were 20 s older."""
    valkey.zincrby(keys.enforcers(), -20_000_000, name)
