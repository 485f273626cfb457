"""From an edit in Postgres to what a check meets."""

from __future__ import annotations

import pytest
import redis
from django.conf import settings

from headroom_edge import keys
from headroom_edge.algorithms.base import DAY_US
from quotas.api_keys import api_key_issue, api_key_revoke
from quotas.models import AuditEvent, Outbox, Revision
from quotas.policies.edit import policy_update
from quotas.publishing import store
from quotas.publishing.shards import SupersededError
from quotas.tenants import NewTenant, tenant_create, tenant_suspend, tenants_create
from tenants.models import Tenant
from tests.quotas.publishing.worlds import (
    ENDPOINT,
    FORCED,
    SAID,
    burst,
    differences,
    publisher_for,
    quota,
    revisions,
    tenant_edit,
    tier_edit,
    tokens,
)


def test_first_pass_publishes_everything(client: redis.Redis, world: None) -> None:
    publisher_for(client).publish()
    assert differences(client) == []
    assert (quota(client, "acme"), quota(client, "carol")) == (10, 30)
    assert not Outbox.objects.exists()


def test_edits_reach_the_next_check(client: redis.Redis, world: None) -> None:
    publisher = publisher_for(client)
    publisher.publish()
    tier_edit(11)
    tenant_edit(31)
    publisher.publish()
    assert (quota(client, "acme"), quota(client, "carol")) == (11, 31)
    assert differences(client) == []


def test_edit_of_one_tenant_leaves_the_other_shards_alone(client: redis.Redis, world: None) -> None:
    publisher = publisher_for(client)
    publisher.publish()
    before = tokens(client)
    tenant_edit(31)
    publisher.publish()
    changed = [shard for shard, token in enumerate(tokens(client)) if token != before[shard]]
    assert changed == [keys.shard_of("carol", settings.HEADROOM_SHARDS)]


def test_pass_without_work_does_nothing(client: redis.Redis, world: None) -> None:
    publisher = publisher_for(client)
    assert publisher.publish()
    assert not publisher.publish()


def test_second_publisher_finds_its_work_done(client: redis.Redis, world: None) -> None:
    first = publisher_for(client)
    first.publish()
    tenant_edit(31)
    first.publish()
    before = tokens(client)
    publisher_for(client).publish()
    assert tokens(client) == before


def test_publisher_that_was_overtaken_changes_nothing_back(client: redis.Redis, world: None) -> None:
    slow, quick = publisher_for(client), publisher_for(client)
    slow.publish()
    quick.publish()
    tier_edit(11)
    quick.publish()
    tenant_edit(31)
    slow.publish()
    assert differences(client) == []


def test_revision_gets_its_time_once_from_redis(client: redis.Redis, world: None) -> None:
    before_us = store.now_us(client)
    publisher = publisher_for(client)
    publisher.publish()
    stamps = dict(Revision.objects.values_list("number", "published_us"))
    assert all(before_us <= (stamp or 0) <= store.now_us(client) for stamp in stamps.values())
    tier_edit(11)
    publisher.publish()
    later = dict(Revision.objects.values_list("number", "published_us"))
    assert {number: later[number] for number in stamps} == stamps
    assert later.keys() - stamps.keys() == {max(later)}
    assert later[max(later)]


def test_units_used_stay_used_when_a_limit_is_edited(client: redis.Redis, world: None) -> None:
    publisher = publisher_for(client)
    publisher.publish()
    shard = keys.tenant_prefix("acme")
    assert client.fcall("hr_check", 1, shard, "acme", ENDPOINT, "7")[4] == 3
    tier_edit(20)
    publisher.publish()
    assert client.fcall("hr_check", 1, shard, "acme", ENDPOINT, "1")[4] == 12


def test_new_and_suspended_tenants_are_published(client: redis.Redis, world: None) -> None:
    publisher = publisher_for(client)
    publisher.publish()
    tenant_create(name="dave", tier="pro", **SAID)
    tenant_suspend(name="acme", **SAID)
    publisher.publish()
    assert quota(client, "dave") == 10
    assert client.fcall("hr_peek", 1, keys.tenant_prefix("acme"), "acme", ENDPOINT, "1")[1] == "suspended"


def test_many_tenants_at_once_are_staged_instead(client: redis.Redis, world: None) -> None:
    publisher = publisher_for(client)
    publisher.publish()
    tenants_create(tenants=[NewTenant(f"t-{number}", "pro") for number in range(6_000)], **SAID)
    publisher.publish()
    assert differences(client) == []


def number_of(tenant: str) -> str:
    return keys.tenant_number(Tenant.objects.get(name=tenant).number)


def test_a_key_is_registered_and_forgotten_without_a_revision(client: redis.Redis, world: None) -> None:
    publisher = publisher_for(client)
    publisher.publish()
    before = tokens(client)
    index = keys.registered(keys.shard_of("acme", settings.HEADROOM_SHARDS))
    key_id = api_key_issue(tenant="acme", **SAID).row.key_id
    publisher.publish()
    assert client.hgetall(index) == {key_id: number_of("acme")}
    api_key_revoke(key_id=key_id, **SAID)
    publisher.publish()
    assert client.hgetall(index) == {}
    assert tokens(client) == before


def test_first_pass_brings_the_keys_up_to_date(client: redis.Redis, world: None) -> None:
    index = keys.registered(keys.shard_of("acme", settings.HEADROOM_SHARDS))
    client.hset(index, "planted", number_of("acme"))
    key_id = api_key_issue(tenant="acme", **SAID).row.key_id
    api_key_issue(tenant="acme", **SAID)
    publisher_for(client).publish()
    assert client.hget(index, key_id) == number_of("acme")
    assert client.hlen(index) == 2


def test_new_month_extends_what_was_compiled(client: redis.Redis, world: None) -> None:
    quota_of_the_day = {"name": "daily", "algorithm": "calendar_quota", "limit": 5, "period": "day"}
    policy_update(name="pro", limits=[*burst(10), quota_of_the_day], **FORCED)
    publisher = publisher_for(client)
    publisher.publish()
    before = tokens(client)
    publisher.publish(store.now_us(client) + 32 * DAY_US)
    assert tokens(client) != before
    assert revisions(client) == [int(token.partition(".")[0]) for token in before]


def test_revision_that_postgres_never_had_gives_way(client: redis.Redis, world: None) -> None:
    """After a restore of Postgres, or because somebody planted it."""
    publisher = publisher_for(client)
    publisher.publish()
    client.set(keys.tenant_prefix("carol"), "999.0123456789abcdef")
    tenant_edit(31)
    with pytest.raises(SupersededError):
        publisher.publish()
    publisher.publish()
    assert differences(client) == []
    assert quota(client, "carol") == 31
    assert AuditEvent.objects.filter(kind="shard_distrusted").count() == 1
