"""F18: what does not compile is said, keeps its last good state, and stops nobody else."""

from __future__ import annotations

import pytest
import redis
from django.db import connection

from quotas.errors import Refused
from quotas.models import AuditEvent, Limit
from quotas.policies.edit import policy_create, policy_update
from tests.quotas.publishing.worlds import FORCED, burst, publisher_for, quota, tenant_edit

QUEUES = [{"name": name, "algorithm": "leaky_bucket", "rate": 1, "queue": 5} for name in ("queue", "other-queue")]


def test_edit_that_does_not_compile_is_refused(client: redis.Redis, world: None) -> None:
    publisher = publisher_for(client)
    publisher.publish()
    with pytest.raises(Refused, match="leaky_bucket"):
        policy_update(name="pro", limits=QUEUES, **FORCED)
    assert not publisher.publish()
    assert quota(client, "acme") == 10


def slip_through(policy: str, *, mode: str = "enforce") -> None:
    """As raw SQL could: two leaky buckets, the second enforced only behind the back of validation."""
    policy_update(name=policy, limits=[QUEUES[0], {**QUEUES[1], "mode": "shadow"}], **FORCED)
    Limit.objects.filter(policy__name=policy).update(mode=mode)


def other_edit(size: int) -> None:
    policy_create(name="bob", tenant="bob", limits=burst(size), **FORCED)


def test_broken_tenant_keeps_its_limits_and_the_others_get_their_edits(client: redis.Redis, world: None) -> None:
    publisher = publisher_for(client)
    publisher.publish()
    slip_through("carol")
    other_edit(11)
    publisher.publish()
    assert (quota(client, "carol"), quota(client, "bob")) == (30, 11)
    event = AuditEvent.objects.get(kind="does_not_compile")
    assert event.detail["object"] == "tenant carol"
    assert "leaky_bucket" in event.detail["problem"]


def test_broken_tier_keeps_its_limits_and_the_others_get_their_edits(client: redis.Redis, world: None) -> None:
    publisher = publisher_for(client)
    publisher.publish()
    slip_through("pro")
    publisher.publish()
    assert quota(client, "acme") == 10
    assert set(AuditEvent.objects.values_list("detail__object", flat=True)) == {"tier pro", "tenant carol"}


def test_problem_is_said_once(client: redis.Redis, world: None) -> None:
    publisher = publisher_for(client)
    publisher.publish()
    slip_through("carol")
    publisher.publish()
    other_edit(11)
    publisher.publish()
    assert AuditEvent.objects.filter(kind="does_not_compile").count() == 1


def test_restarted_publisher_finds_the_last_good_state_in_redis(client: redis.Redis, world: None) -> None:
    publisher_for(client).publish()
    slip_through("pro")
    policy_create(name="free", tier="free", limits=QUEUES[:1], **FORCED)
    publisher_for(client).publish()
    assert (quota(client, "acme"), quota(client, "carol")) == (10, 30)


def test_mended_object_is_published(client: redis.Redis, world: None) -> None:
    publisher = publisher_for(client)
    publisher.publish()
    slip_through("carol")
    publisher.publish()
    tenant_edit(31)
    publisher.publish()
    assert quota(client, "carol") == 31


@pytest.mark.parametrize("parameters", ['{"rate": -1}', '{"rate": 1, "burst": 1, "per": "never"}', "{}"])
def test_row_that_cannot_be_read_stops_nobody_else(client: redis.Redis, world: None, parameters: str) -> None:
    publisher = publisher_for(client)
    publisher.publish()
    tenant_edit(31)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE quotas_limit SET parameters = %s WHERE policy_id ="
            " (SELECT id FROM quotas_policy WHERE name = 'carol')",
            [parameters],
        )
    other_edit(11)
    publisher.publish()
    assert (quota(client, "carol"), quota(client, "bob")) == (30, 11)
    publisher_for(client).publish()
    assert (quota(client, "carol"), quota(client, "bob")) == (30, 11)
