"""What gateways look up follows Postgres: credentials at once, routes with their revision, both after a flush."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import cast

import redis
from django.conf import settings
from django.utils import timezone

from headroom_edge import keys
from headroom_edge.directory import secret_hash
from quotas.api_keys import IssuedKey, api_key_issue, api_key_revoke, api_key_rotate
from quotas.endpoints import endpoint_create, endpoint_delete, endpoint_update
from quotas.models import AuditEvent, Endpoint
from quotas.publishing.publisher import Publisher
from quotas.publishing.reconciler import Reconciler
from tenants.keyring import pepper
from tests.quotas.publishing.worlds import SAID, publisher_for


def entry(client: redis.Redis, issued: IssuedKey) -> str | None:
    digest = secret_hash(pepper(1), str(issued.text))
    index = keys.credentials(keys.shard_of(digest, settings.HEADROOM_SHARDS))
    return cast("str | None", client.hget(index, digest))


def routes(client: redis.Redis) -> list[list[str]]:
    """Those of endpoints that have a path."""
    found: list[list[str]] = json.loads(cast("str", client.hget(keys.directory(), "routes")))
    assert {name for name, _, _ in found} == set(Endpoint.objects.filter(retired=False).values_list("name", flat=True))
    return [row for row in found if row[2]]


def test_a_credential_says_whose_it_is_and_what_it_may(client: redis.Redis, world: None) -> None:
    issued = api_key_issue(tenant="acme", scopes=["read", "check"], **SAID)
    publisher_for(client).publish()
    assert entry(client, issued) == f"{issued.text.key_id} check,read acme"


def test_keys_are_followed_one_by_one(client: redis.Redis, world: None) -> None:
    publisher = publisher_for(client)
    publisher.publish()
    issued = [api_key_issue(tenant="acme", **SAID) for _ in range(2)]
    publisher.publish()
    api_key_revoke(key_id=issued[0].text.key_id, **SAID)
    publisher.publish()
    assert [entry(client, key) is None for key in issued] == [True, False]


def test_a_key_that_was_revoked_unseen_is_removed_at_the_next_start(client: redis.Redis, world: None) -> None:
    issued = api_key_issue(tenant="acme", **SAID)
    publisher_for(client).publish()
    api_key_revoke(key_id=issued.text.key_id, **SAID)
    publisher_for(client).publish()
    assert entry(client, issued) is None


def test_a_revoked_key_waits_for_no_configuration(client: redis.Redis, world: None) -> None:
    issued = api_key_issue(tenant="acme", **SAID)
    steps: list[bool] = []
    publisher = Publisher(client, settings.HEADROOM_SHARDS, lambda step: steps.append(entry(client, issued) is None))
    publisher.publish()
    steps.clear()
    api_key_revoke(key_id=issued.text.key_id, **SAID)
    endpoint_create(name="search:suggest", **SAID)
    publisher.publish()
    assert steps == [False, False, False, *[True] * (len(steps) - 3)]


def registered(client: redis.Redis, issued: IssuedKey) -> bool:
    shard = keys.shard_of(issued.row.tenant.name, settings.HEADROOM_SHARDS)
    return bool(client.hexists(keys.registered(shard), issued.text.key_id))


def test_an_end_and_a_line_are_published_so_that_older_enforcers_can_still_read_the_entry(
    client: redis.Redis, world: None
) -> None:
    first = api_key_issue(tenant="acme", **SAID)
    until = timezone.now() + timedelta(hours=1)
    second = api_key_rotate(key_id=first.text.key_id, until=until, **SAID)
    publisher_for(client).publish()
    ends_ms = int(until.timestamp() * 1_000)
    assert entry(client, first) == f"{first.text.key_id} check,!ends={ends_ms} acme"
    assert entry(client, second) == f"{second.text.key_id} check,!as={first.text.key_id} acme"
    for issued in (first, second):
        assert len(str(entry(client, issued)).split(" ")) == 3  # as SDK 0.2 reads it


def test_an_ended_key_is_removed_but_what_its_line_is_counted_as_stays(client: redis.Redis, world: None) -> None:
    publisher = publisher_for(client)
    publisher.publish()
    first = api_key_issue(tenant="acme", **SAID)
    second = api_key_rotate(key_id=first.text.key_id, until=timezone.now() + timedelta(hours=1), **SAID)
    publisher.publish()
    assert entry(client, first) is not None
    later_us = int((timezone.now() + timedelta(hours=1, seconds=1)).timestamp() * 1_000_000)
    publisher.publish(later_us)
    assert entry(client, first) is None
    assert entry(client, second) is not None
    assert (registered(client, first), registered(client, second)) == (True, True)
    api_key_revoke(key_id=second.text.key_id, **SAID)
    publisher.publish(later_us)
    assert (registered(client, first), registered(client, second)) == (False, False)


def test_routes_follow_the_endpoints(client: redis.Redis, world: None) -> None:
    publisher = publisher_for(client)
    publisher.publish()
    assert routes(client) == []
    endpoint_create(name="rides:get", method="GET", path="/v1/rides/{id}", **SAID)
    endpoint_create(name="rides:list", method="GET", path="/v1/rides", **SAID)
    publisher.publish()
    assert routes(client) == [["rides:get", "GET", "/v1/rides/{id}"], ["rides:list", "GET", "/v1/rides"]]
    endpoint_update(name="rides:get", path="/v2/rides/{id}", **SAID)
    endpoint_delete(name="rides:list", **SAID)
    publisher.publish()
    assert routes(client) == [["rides:get", "GET", "/v2/rides/{id}"]]


def test_the_token_tells_one_table_from_another(client: redis.Redis, world: None) -> None:
    publisher = publisher_for(client)
    publisher.publish()
    before = client.hget(keys.directory(), "token")
    publisher_for(client).publish()
    assert client.hget(keys.directory(), "token") == before
    endpoint_create(name="rides:get", method="GET", path="/v1/rides/{id}", **SAID)
    publisher.publish()
    assert client.hget(keys.directory(), "token") != before


def test_what_was_lost_or_edited_comes_back(client: redis.Redis, world: None) -> None:
    issued = api_key_issue(tenant="acme", **SAID)
    publisher = publisher_for(client)
    publisher.publish()
    held, wanted = client.hgetall(keys.directory()), entry(client, issued)
    reconciler = Reconciler(publisher, client)
    client.hset(keys.directory(), "routes", "[]x")
    client.delete(*[keys.credentials(shard) for shard in range(settings.HEADROOM_SHARDS)])
    reconciler.check_shards()
    assert (client.hgetall(keys.directory()), entry(client, issued)) == (held, wanted)
    causes = [event.detail["cause"] for event in AuditEvent.objects.filter(kind="shard_repaired").order_by("id")]
    assert causes == ["API keys were missing", "routes were missing or edited"]
