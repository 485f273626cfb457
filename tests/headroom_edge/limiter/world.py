"""A small configuration, compiled and put into a store, for tests of those who read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import redis
from redis.cluster import RedisCluster

from headroom_edge import keys
from headroom_edge.algorithms import ALGORITHMS
from headroom_edge.lua_library import ensure_loaded
from headroom_edge.plan.subject import Subject
from quotas.policies.compile import Compiler, Target
from quotas.policies.spec import EVERYWHERE, Configuration, Endpoint, Limit, Policy, Tenant, Tier

TENANT = "acme"
OTHER_TENANT = "zenith"
SUSPENDED_TENANT = "bankrupt"
ENDPOINT = "search"
COSTLY_ENDPOINT = "export"  # costs 5 unless the caller says otherwise
NOW_US = 1_800_000_000_000_000
TARGET = Target(keys.SHARDS, keys.shard_of, keys.shard_prefix)


def limit(name: str, algorithm: str, subject: str = "tenant", **fields: Any) -> Limit:
    """`fields`: the parameters of the algorithm, and unit, mode, on_failure or lease_ms."""
    about = {key: fields.pop(key) for key in ("unit", "mode", "on_failure", "lease_ms") if key in fields}
    return Limit(name, ALGORITHMS[algorithm].parse(fields), Subject.parse(subject), **about)


def configuration(
    *limits: Limit, endpoints: Mapping[str, tuple[Limit, ...]] | None = None, revision: int = 1
) -> Configuration:
    """`limits` hold for every endpoint, `endpoints` for one each; all for the tier of every tenant here."""
    policies = [Policy("everywhere", EVERYWHERE, limits, tier="pro")]
    policies += [Policy(name, name, own, tier="pro") for name, own in (endpoints or {}).items()]
    names = [one.name for policy in policies for one in policy.limits]
    tenants = [
        Tenant(1, TENANT, "pro"),
        Tenant(2, OTHER_TENANT, "pro"),
        Tenant(3, SUSPENDED_TENANT, "pro", suspended=True),
    ]
    return Configuration(
        revision=revision,
        tiers={"pro": Tier(1, "pro")},
        endpoints={ENDPOINT: Endpoint(1, ENDPOINT), COSTLY_ENDPOINT: Endpoint(2, COSTLY_ENDPOINT, 5)},
        tenants={tenant.name: tenant for tenant in tenants},
        policies=tuple(policies),
        overrides=(),
        limit_numbers={name: number for number, name in enumerate(dict.fromkeys(names), 1)},
    )


def many_tenants(published: Configuration, count: int) -> Configuration:
    """With tenants t0, t1 … of the same tier, which lie on every server of a cluster."""
    tenants = {f"t{number}": Tenant(number + 10, f"t{number}", "pro") for number in range(count)}
    return replace(published, tenants={**published.tenants, **tenants})


def publish(store: redis.Redis | RedisCluster, published: Configuration) -> None:
    is_clustered = isinstance(store, RedisCluster)
    for server in servers(store):
        ensure_loaded(server)
    compiler = Compiler(replace(TARGET, clustered=is_clustered), NOW_US)
    compiler.load(published)
    assert not compiler.problems
    with cast("redis.Redis", store).pipeline(transaction=False) as pipe:
        for shard, image in compiler.image.numbered.items():
            if image.entries:
                pipe.hset(keys.tenants(shard), items=[part for pair in image.entries.items() for part in pair])
            pipe.hset(keys.config(shard), items=[part for pair in image.config.items() for part in pair])
            pipe.set(keys.shard_prefix(shard), image.token)
        pipe.execute()


def servers(store: redis.Redis | RedisCluster) -> list[redis.Redis]:
    if not isinstance(store, RedisCluster):
        return [store]
    primaries = store.get_primaries()  # type: ignore[no-untyped-call]
    return [store.get_redis_connection(node) for node in primaries]


def fcalls(store: redis.Redis) -> int:
    """How many functions the store has run since its statistics were reset."""
    return int(store.info("commandstats").get("cmdstat_fcall", {}).get("calls", 0))
