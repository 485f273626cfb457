"""An archived tenant gets a 403 from the gateway and the SDK, also where unknown tenants have a stand-in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from pytest_django.fixtures import Settings

from headroom_edge import Limiter
from quotas.api_keys import api_key_issue
from quotas.publishing.publisher import Publisher
from quotas.tenants import tenant_archive, tenant_restore
from quotas.tokens import token_issue
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.gateway.test_serving import alone
from tests.headroom_edge.world import Client
from tests.quotas.publishing.worlds import publisher_for
from tests.quotas.world import GET, SAID, make_world


@pytest.fixture
def publisher(valkey: redis.Redis, valkey_url: str, db: None, settings: Settings) -> Publisher:
    settings.HEADROOM_UNKNOWN_TENANT = "bolt"
    make_world()
    return publisher_for(redis.Redis.from_url(valkey_url, decode_responses=True))


@pytest.fixture
def gateway(valkey_url: str) -> Iterator[Client]:
    with alone(REDIS_URL=valkey_url) as client:
        yield client


@pytest.fixture
def limiter(valkey_url: str) -> Iterator[Limiter]:
    with Limiter.from_url(valkey_url, budget_ms=AMPLE_MS, heartbeat_s=0.01) as limiter:
        yield limiter


def asked(client: Client, tenant: str, token: str) -> tuple[int, str]:
    answer = client.post("/v1/check", {"tenant": tenant, "endpoint": GET}, authorization=f"Bearer {token}").json()
    return int(answer["status"]), answer.get("problem", {}).get("code", "")


def test_it_is_refused_while_a_stranger_is_let_in(publisher: Publisher, gateway: Client, limiter: Limiter) -> None:
    token = str(token_issue(label="gateway", role="operator", scopes=["check"], **SAID).text)
    key = api_key_issue(tenant="acme", **SAID)
    publisher.publish()
    assert asked(gateway, "acme", token) == (200, "")
    tenant_archive(name="acme", **SAID)
    publisher.publish()
    assert asked(gateway, "acme", token) == (403, "tenant-suspended")
    assert asked(gateway, "nobody", token)[0] == 200
    decision = limiter.check(tenant="acme", endpoint=GET)
    assert (decision.allowed, decision.reason) == (False, "suspended")
    assert limiter.check(tenant="nobody", endpoint=GET).allowed
    refused = gateway.post("/v1/check", {"endpoint": GET}, authorization=f"Bearer {key.text}")
    assert refused.status == 401


def test_restored_it_is_let_in_again_and_its_old_key_is_not(publisher: Publisher, limiter: Limiter) -> None:
    tenant_archive(name="acme", **SAID)
    publisher.publish()
    assert not limiter.check(tenant="acme", endpoint=GET).allowed
    tenant_restore(name="acme", **SAID)
    publisher.publish()
    assert limiter.check(tenant="acme", endpoint=GET).allowed
