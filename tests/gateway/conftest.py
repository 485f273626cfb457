from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from api.gateway.app import Gateway
from api.gateway.guard import Rules
from api.gateway.proxies import TrustedProxies
from quotas.limiter import AsyncLimiter
from tests.gateway.world import HOURLY, Client, publish_world, served

# The cores are shared with other tests: a budget that only a fault can exceed.
AMPLE_MS = 10_000
LOOPBACK = Rules(trusted_proxies=TrustedProxies.parse(["127.0.0.0/8"]))


@pytest.fixture
def store(valkey: redis.Redis) -> redis.Redis:
    """Everybody has 5 an hour."""
    publish_world(valkey, HOURLY)
    return valkey


@pytest.fixture
def gateway(store: redis.Redis, valkey_url: str) -> Iterator[Client]:
    """Behind a proxy on this machine, which it trusts."""
    with served(Gateway(AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS), LOOPBACK)) as client:
        yield client
