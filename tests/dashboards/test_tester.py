"""The request tester says what a check would say, and charges nothing."""

from __future__ import annotations

import re

import pytest
import redis
from django.conf import settings
from django.test import Client

from dashboards.pages.tester.view import limiter
from quotas.overrides import override_create
from quotas.policies.edit import policy_create, policy_update
from quotas.publishing import store
from quotas.publishing.publisher import Publisher
from quotas.tenants import tenant_suspend
from tests.quotas.world import FORCED, PAY, SAID, bucket, make_world


@pytest.fixture(autouse=True)
def published(db: None, valkey: redis.Redis) -> None:
    make_world()
    publish()


def publish() -> None:
    client = store.connect(settings.REDIS_URL)
    store.prepare(client)
    Publisher(client, settings.HEADROOM_SHARDS).publish()


def asked(client: Client, **fields: str) -> str:
    response = client.post("/tester", {"tenant": "acme", **fields})
    assert response.status_code == 200
    return re.sub(r"\s+", " ", response.content.decode())


def test_it_shows_every_rule_and_the_headers(client: Client) -> None:
    text = asked(client, endpoint=PAY)
    assert ">Allowed</h2>" in text
    assert "100/s sustained, up to 200 at once" in text
    assert "tier pro × *" in text
    assert "<b>199</b> <span" in text
    assert "RateLimit-Policy" in text


def test_it_finds_the_endpoint_of_a_path(client: Client) -> None:
    assert '<span class="ep">payments:charge</span>' in asked(client, method="POST", path="/v1/charges?x=1")
    assert "not registered: only limits on * apply" in asked(client, path="/nowhere")


def test_it_consumes_nothing(client: Client) -> None:
    for _ in range(3):
        assert "<b>199</b> <span" in asked(client, endpoint=PAY)


def test_it_says_what_denies_and_for_how_long(client: Client) -> None:
    limits = [bucket(3, "pay", burst=5, per="1h", unit="cost")]
    policy_create(name="pay", tier="pro", endpoint=PAY, limits=limits, **FORCED)
    publish()
    limiter().check(tenant="acme", endpoint=PAY, cost=5, budget_ms=60_000)
    text = asked(client, endpoint=PAY, cost="4")
    assert "Denied by pay" in text
    assert "Retry in" in text
    assert "higher than this limit can ever allow" in asked(client, endpoint=PAY, cost="6")


def test_what_is_counted_together_is_said_in_words(client: Client) -> None:
    limits = [bucket(3, "client", subject="key|ip")]
    policy_create(name="clients", tier="pro", endpoint=PAY, limits=limits, **FORCED)
    publish()
    assert "per API key or address" in asked(client, endpoint=PAY, ip="203.0.113.7")


def test_a_limit_mentions_its_lease_if_it_is_set(client: Client) -> None:
    policy_create(name="pay", tier="pro", endpoint=PAY, limits=[bucket(3, "pay", lease="never")], **FORCED)
    text = asked(client, endpoint=PAY)
    assert "per tenant, payments:charge, in requests; never leased</p>" in text
    assert text.count("leased</p>") == 1


def test_an_override_stands_on_top_of_the_ladder(client: Client) -> None:
    override_create(tenant="acme", endpoint="*", multiplier=(2, 1), **SAID)
    publish()
    text = asked(client, endpoint=PAY)
    assert "every limit × 2/1" in text
    assert "policy, changed by the override" in text


def test_a_suspended_tenant_is_told(client: Client) -> None:
    tenant_suspend(name="acme", **SAID)
    publish()
    assert "the tenant is suspended" in asked(client, endpoint=PAY)


def test_what_is_wrong_stands_beside_its_field_and_what_was_typed_stays(client: Client) -> None:
    text = asked(client, endpoint=PAY, path="/v1/charges", user="ann")
    assert "either an endpoint or a path" in text
    assert 'value="ann"' in text
    assert "There is no tenant nobody" in asked(client, tenant="nobody", endpoint=PAY)
    assert "is not a valid dimension" in asked(client, endpoint=PAY, more="Region eu")
    assert "Enter a tenant" in asked(client, tenant="", endpoint=PAY)


def test_more_dimensions_are_one_a_line(client: Client) -> None:
    assert ">Allowed</h2>" in asked(client, endpoint=PAY, more="region eu-west\n\nplan  gold", ip="203.0.113.7")


def test_a_store_that_cannot_say_is_said(client: Client, valkey: redis.Redis) -> None:
    valkey.flushall()
    assert "Redis could not answer" in asked(client, endpoint=PAY)


def test_an_address_fills_in_the_form_and_tests_nothing(client: Client) -> None:
    text = client.get(f"/tester?tenant=acme&endpoint={PAY}&cost=7").content.decode()
    assert all(f'value="{value}"' in text for value in ("acme", PAY, "7"))
    assert "Enter a request" in text


def test_it_says_why_a_limit_that_borrows_denies(client: Client) -> None:
    shared = [
        {"name": "org", "algorithm": "pool", "rate": 10, "per": "1h", "burst": 4},
        {"name": "part", "algorithm": "borrowing", "assured": 3, "per": "1h", "parent": "org"},
        {"name": "team", "algorithm": "borrowing", "assured": 2, "per": "1h", "parent": "part"},
    ]
    policy_update(name="pro-all", limits=shared, **FORCED)
    publish()
    for _ in range(6):
        limiter().check(tenant="acme", endpoint=PAY, budget_ms=60_000)
    text = asked(client, endpoint=PAY)
    assert "Denied by team" in text
    assert re.search("The pool org (is full|has no more to lend to team, in fairness to others,) and", text)
    assert "the guaranteed share of 2/h is used." in text
