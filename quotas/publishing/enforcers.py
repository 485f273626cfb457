"""The enforcing processes that were heard of lately, as their heartbeats tell."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import redis

from headroom_edge import keys
from quotas.publishing import store


@dataclass(frozen=True, slots=True)
class Enforcer:
    id: str
    host: str
    pid: int
    is_degraded: bool  # it decides without Redis, or did a moment ago


def enforcers_read(client: redis.Redis) -> list[Enforcer]:
    now_us = store.now_us(client)
    with client.pipeline(transaction=False) as pipe:
        pipe.zrangebyscore(keys.enforcers(), now_us, "+inf")
        pipe.hgetall(keys.enforcer_info())
        alive, about = cast("tuple[list[str], dict[str, str]]", pipe.execute())
    return _processes(_enforcer(name, about.get(name, "{}")) for name in alive)


def _processes(clients: Iterable[Enforcer]) -> list[Enforcer]:
    """A process may have several clients; one that decides without Redis is enough to call it degraded."""
    found: dict[tuple[str, int] | str, Enforcer] = {}
    for each in sorted(clients, key=lambda each: (not each.is_degraded, each.host, each.pid, each.id)):
        found.setdefault((each.host, each.pid) if each.host else each.id, each)
    return list(found.values())


def _enforcer(name: str, text: str) -> Enforcer:
    try:
        facts = json.loads(text)
        return Enforcer(name, str(facts.get("host", "")), int(facts.get("pid", 0)), bool(facts.get("degraded")))
    except (ValueError, AttributeError, TypeError):
        return Enforcer(name, "", 0, is_degraded=False)
