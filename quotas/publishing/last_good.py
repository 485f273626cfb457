"""Restores the last good plans of objects that no longer compile.

A running publisher keeps them in memory; a new process can only read them from Redis, where the former one put them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import redis

from headroom_edge import keys
from quotas.policies.compile import NUMBER_WIDTH, Compiler, Piece
from quotas.policies.shard_image import MAIN
from quotas.publishing import store

Config = Mapping[str, str]


def restore_last_good(compiler: Compiler, client: redis.Redis, shards: int) -> None:
    if compiler.is_home_lost:
        _restore_home(compiler, client)
    lost = compiler.lost()
    if not lost:
        return
    tiers = _tier_pieces(_any_config(client, shards))
    for owner in lost:
        if owner.kind == "tier":
            compiler.restore_tier(owner.name, tiers)
    by_shard: dict[int, list[str]] = defaultdict(list)
    for owner in lost:
        if owner.kind == "tenant":
            by_shard[keys.shard_of(owner.name, shards)].append(owner.name)
    for shard, names in by_shard.items():
        _restore_tenants(compiler, client, shard, names)


def _restore_home(compiler: Compiler, client: redis.Redis) -> None:
    entry = cast("str | None", client.hget(keys.tenants(keys.EVERYONES_SHARD), keys.EVERYONE))
    fields = _fields(_sets(entry[NUMBER_WIDTH:]), _config(client, keys.EVERYONES_SHARD)) if entry else None
    if entry and fields is not None:
        compiler.restore_home(entry, fields)


def _restore_tenants(compiler: Compiler, client: redis.Redis, shard: int, names: list[str]) -> None:
    entries = cast("list[str | None]", client.hmget(keys.tenants(shard), names))
    config = _config(client, shard)
    for name, entry in zip(names, entries, strict=True):
        fields = _fields(_sets(entry[NUMBER_WIDTH:]), config) if entry else None
        if entry and fields is not None:
            compiler.restore_tenant(name, entry, fields)


def _any_config(client: redis.Redis, shards: int) -> Config:
    """Every shard has all tiers. In a cluster, the server of the first one may be away."""
    error = redis.RedisError("there is no shard")
    for shard in range(shards):
        try:
            return _config(client, shard)
        except redis.RedisError as failure:
            error = failure
            if store.as_cluster(client) is None:
                break
    raise error


def _config(client: redis.Redis, shard: int) -> Config:
    return cast("dict[str, str]", client.hgetall(keys.config(shard)))


def _tier_pieces(config: Config) -> dict[str, Piece]:
    tiers = json.loads(config.get(MAIN, "{}")).get("tiers", {})
    fields = {ref: _fields([name], config) for ref, name in tiers.items()}
    return {ref: Piece(tiers[ref], found) for ref, found in fields.items() if found is not None}


def _sets(ref: str) -> list[str]:
    """The limit sets that an entry names; empty if it refers to a tier."""
    if not ref.startswith("{"):
        return []
    entry = json.loads(ref)
    return [entry["s"]] if "s" in entry else [name for _, name in entry["x"]]


def _fields(sets: Iterable[str], config: Config) -> dict[str, str] | None:
    """The fields of the sets, of their plans, and of the plans' calendars and loops; None if any is missing."""
    try:
        return _whole(sets, config)
    except KeyError:
        return None


def _whole(sets: Iterable[str], config: Config) -> dict[str, str]:
    found = {f"s:{name}": config[f"s:{name}"] for name in sets}
    plans = {f"p:{name}" for text in list(found.values()) for name in json.loads(text).values()}
    found |= {name: config[name] for name in plans}
    more = {name for plan in plans for name in _named_by(json.loads(config[plan]))}
    return found | {name: config[name] for name in more}


def _named_by(plan: Any) -> Iterator[str]:
    """Calendars and loops."""
    limits = [limit for group in plan["g"] for limit in group["l"]]
    past = [generation[1] for limit in limits for generation in limit.get("past", ())]
    yield from (f"k:{parameters['K']}" for parameters in (*limits, *past) if "K" in parameters)
    yield from (f"a:{limit['fa'][0]}" for limit in limits if limit.get("fa", [""])[0])
