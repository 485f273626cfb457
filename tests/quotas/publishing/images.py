"""Configurations without a database, published."""

from __future__ import annotations

import redis
from django.conf import settings

from headroom_edge import keys
from headroom_edge.lua_library import ensure_loaded
from quotas.policies.compile import Compiler, Target
from quotas.policies.spec import Configuration
from quotas.publishing import store
from quotas.publishing.shards import Shards


def publish(client: redis.Redis, configuration: Configuration) -> None:
    count = settings.HEADROOM_SHARDS
    target = Target(count, lambda tenant: keys.shard_of(tenant, count), keys.shard_prefix)
    compiler = Compiler(target, store.now_us(client))
    compiler.load(configuration)
    ensure_loaded(client)
    Shards(client, count).replace(dict(enumerate(compiler.image.shards)))
