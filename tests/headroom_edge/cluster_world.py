"""The world of world.py on a real cluster: tenants on every primary, and limits over all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from redis.cluster import RedisCluster

from headroom_edge import keys
from quotas.policies.spec import EVERYWHERE, Limit, Policy
from tests.clusters import SpareCluster
from tests.headroom_edge.limiter.world import limit, many_tenants, publish
from tests.headroom_edge.world import configuration, publish_directory

ENDPOINT = "rides:list"
TENANTS = [f"t{number}" for number in range(30)]
AMPLE = limit("own", "fixed_window", limit=1_000_000, window="1h")


def publish_cluster(
    store: RedisCluster,
    *limits: Limit,
    over_all: tuple[Limit, ...] = (),
    endpoints: Mapping[str, tuple[Limit, ...]] | None = None,
    revision: int = 1,
) -> None:
    """`limits` hold for every tenant by itself, `over_all` for all of them together."""
    whole = many_tenants(configuration(*limits, endpoints=endpoints), len(TENANTS))
    policies = (*whole.policies, *([Policy("global", EVERYWHERE, over_all)] if over_all else []))
    names = dict.fromkeys(each.name for policy in policies for each in policy.limits)
    numbers = {name: number for number, name in enumerate(names, 1)}
    publish(store, replace(whole, policies=policies, limit_numbers=numbers, revision=revision))
    publish_directory(store)


def used_of_all(store: RedisCluster, endpoint: str = ENDPOINT) -> int:
    """Units of the tightest limit over all tenants that are spent, as its home says."""
    reply: Any = store.fcall("hr_peek", 1, keys.ALL, keys.EVERYONE, endpoint, "1")
    return int(reply[3]) - int(reply[4]) - 1 if reply[0] else int(reply[3])


def tenants_by_primary(cluster: SpareCluster) -> dict[int, list[str]]:
    """By the port of the primary that a tenant's shard is on."""
    found: dict[int, list[str]] = {}
    for name in TENANTS:
        found.setdefault(cluster.owner_of(keys.tenant_prefix(name)).port, []).append(name)
    return found
