"""An installation to publish, and the comparison of what Redis holds with what Postgres says."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, TypedDict, cast

import redis
from django.conf import settings

from headroom_edge import keys
from quotas.endpoints import endpoint_create
from quotas.policies.compile import Compiler, Target
from quotas.policies.configuration import configuration_load
from quotas.policies.edit import policy_create, policy_update
from quotas.publishing import store
from quotas.publishing.publisher import Publisher
from quotas.publishing.shards import digest_of, revision_of
from quotas.tenants import tenant_create, tier_create
from tests.database import kept


class Said(TypedDict):
    author: str
    reason: str


class Forced(Said):
    force: bool


SAID: Said = {"author": "test", "reason": "test"}
# Most tests are about something else than whom a change hurts.
FORCED: Forced = {**SAID, "force": True}
ENDPOINT = "search:query"
PATIENCE_SECONDS = 120.0


def burst(size: int) -> list[dict[str, Any]]:
    """One limit, whose capacity tells which configuration holds."""
    return [{"name": "burst", "algorithm": "token_bucket", "rate": 1, "per": "1h", "burst": size, "unit": "cost"}]


@kept
def world_create() -> None:
    """Tier pro with bursts of 10; acme, bob and carol are on it, carol with a burst of her own."""
    tier_create(name="pro", **SAID)
    tier_create(name="free", **SAID)
    endpoint_create(name=ENDPOINT, **SAID)
    policy_create(name="pro", tier="pro", limits=burst(10), **FORCED)
    for name in ("acme", "bob", "carol"):
        tenant_create(name=name, tier="pro", **SAID)
    policy_create(name="carol", tenant="carol", limits=burst(30), **FORCED)


def tier_edit(size: int) -> None:
    policy_update(name="pro", limits=burst(size), **FORCED)


def tenant_edit(size: int) -> None:
    policy_update(name="carol", limits=burst(size), **FORCED)


def publisher_for(client: redis.Redis) -> Publisher:
    store.prepare(client)
    return Publisher(client, settings.HEADROOM_SHARDS)


def quota(client: redis.Redis, tenant: str) -> int:
    """The capacity that a check of this tenant meets; -1: it is not known, or not ready."""
    reply = cast("list[Any]", client.fcall("hr_peek", 1, keys.tenant_prefix(tenant), tenant, ENDPOINT, "1", "ALL"))
    rows = [row for row in reply[12:] if row[0] == "burst"]
    return int(rows[0][2]) if rows else -1


def tokens(client: redis.Redis) -> list[str]:
    with client.pipeline(transaction=False) as pipe:
        for shard in range(settings.HEADROOM_SHARDS):
            pipe.get(keys.shard_prefix(shard))
        return [token or "" for token in pipe.execute()]


def revisions(client: redis.Redis) -> list[int]:
    return [revision_of(token) for token in tokens(client)]


def differences(client: redis.Redis) -> list[str]:
    """In what Redis differs from a fresh compilation of Postgres."""
    count = settings.HEADROOM_SHARDS
    target = Target(count, lambda tenant: keys.shard_of(tenant, count), keys.shard_prefix, store.is_clustered(client))
    compiler = Compiler(target, store.now_us(client))
    compiler.load(configuration_load())
    found = []
    for shard, (image, token) in enumerate(zip(compiler.image.shards, tokens(client), strict=True)):
        if digest_of(token.partition("+")[0]) != digest_of(image.token):
            found.append(f"token of shard {shard}: {token}, not {image.token}")
        if client.hgetall(keys.tenants(shard)) != image.entries:
            found.append(f"entries of shard {shard}")
        held = cast("dict[str, str]", client.hgetall(keys.config(shard)))
        if _without_revision(held) != _without_revision(image.config):
            found.append(f"configuration of shard {shard}")
    return found


def _without_revision(config: dict[str, str]) -> dict[str, Any]:
    main = json.loads(config.get("main", "{}"))
    main.pop("revision", None)
    return {**config, "main": main}


def wait_until(condition: Callable[[], bool], what: str) -> float:
    """Seconds it took."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > PATIENCE_SECONDS:
            raise AssertionError(f"{what}: not within {PATIENCE_SECONDS:.0f} s")
        time.sleep(0.005)
    return time.monotonic() - start
