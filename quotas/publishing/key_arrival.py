"""A key is handed out once enforcers know it: whoever uses it at once must not be refused."""

from __future__ import annotations

import time
from typing import Final

import redis
from django.conf import settings
from django.db.models.functions import Now

from headroom_edge import keys
from quotas.models.jobs import PUBLISHER_STALE_AFTER, Heartbeat
from quotas.publishing import store
from tenants.models import ApiKey

PATIENCE_S: Final = 2.0
PAUSE_S: Final = 0.02


def key_arrives(row: ApiKey) -> bool:
    """Waits until Redis has the key, after the transaction that stored it. False: not yet, or nobody publishes."""
    if not Heartbeat.objects.filter(name="publisher", at__gt=Now() - PUBLISHER_STALE_AFTER).exists():
        return False
    name = keys.credentials(keys.shard_of(row.secret_hash, settings.HEADROOM_SHARDS))
    deadline = time.monotonic() + PATIENCE_S
    try:
        with store.connect(settings.REDIS_URL, patience_seconds=PATIENCE_S) as client:
            while not client.hexists(name, row.secret_hash):
                if time.monotonic() > deadline:
                    return False
                time.sleep(PAUSE_S)
    except redis.RedisError:
        return False
    return True
