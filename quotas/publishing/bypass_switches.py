"""Bypass switches: turn limits to shadow for a while. They live in Redis only, and publishing does not touch them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Literal

import redis

from headroom_edge import keys
from quotas.publishing import store

Scope = Literal["all", "tenant", "endpoint", "limit"]


@dataclass(frozen=True, slots=True)
class BypassSwitch:
    scope: Scope
    name: str  # empty for `all`
    until_us: int
    reason: str

    @property
    def until(self) -> datetime:
        return datetime.fromtimestamp(self.until_us / store.SECOND_US, UTC)

    @property
    def about(self) -> tuple[Scope, str]:
        return (self.scope, self.name)

    def __str__(self) -> str:
        return switch_words(self.scope, self.name)


def switch_words(scope: str, name: str) -> str:
    return "all limits" if scope == "all" else f"{scope} {name}"


def switches_read(client: redis.Redis, shards: int) -> list[BypassSwitch]:
    """The switches that are on in any shard that can be reached, in case a shard missed a change."""
    texts, errors = store.ask_each(client, {shard: ("GET", keys.bypass(shard)) for shard in range(shards)})
    if not texts and errors:
        raise store.PartialError(errors, shards)
    found = {BypassSwitch(**row) for text in set(texts.values()) if text for row in json.loads(text)}
    now_us = store.now_us(client)
    return sorted((switch for switch in found if switch.until_us > now_us), key=lambda s: (s.about, s.until_us))


def is_published(client: redis.Redis, shards: int, switch: BypassSwitch) -> bool:
    """Whether Redis knows the tenant or endpoint. True for a limit: Redis has no list of limit names."""
    if switch.scope == "tenant":
        return bool(client.hexists(keys.tenants(keys.shard_of(switch.name, shards)), switch.name))
    if switch.scope == "endpoint":
        main = json.loads(str(client.hget(keys.config(0), "main") or "{}"))
        listed = str(client.hget(keys.config(0), f"e:{main.get('endpoints')}") or "{}")
        return switch.name in json.loads(listed)
    return True


def switch_on(client: redis.Redis, shards: int, switch: BypassSwitch) -> None:
    """Replaces a switch of the same scope and name."""
    others = [old for old in switches_read(client, shards) if old.about != switch.about]
    _write(client, shards, [*others, switch])


def switch_off(client: redis.Redis, shards: int, about: tuple[Scope, str] | None) -> list[BypassSwitch]:
    """Turns off the switch with this scope and name, or all for None; returns those that were on."""
    switches = switches_read(client, shards)
    ended = [switch for switch in switches if about in (None, switch.about)]
    _write(client, shards, [switch for switch in switches if switch not in ended])
    return ended


def _write(client: redis.Redis, shards: int, switches: Iterable[BypassSwitch]) -> None:
    """Writes to every shard that can be reached, and tries the others for some seconds: a slot may be moving, or a
    replica taking over. Raises PartialError for those that stayed away."""
    rows = [asdict(switch) for switch in switches]
    text = json.dumps(rows) if rows else ""
    waiting = set(store.shard_numbers(client, shards))

    def write() -> None:
        calls = {shard: ("FCALL", "hr_bypass", 1, keys.shard_prefix(shard), text) for shard in sorted(waiting)}
        done, errors = store.ask_each(client, calls)
        waiting.difference_update(done)
        if errors:
            raise store.PartialError(errors, shards)

    store.patiently(write)
