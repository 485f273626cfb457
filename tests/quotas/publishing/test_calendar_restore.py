"""Calendar quotas survive the loss of Redis: what was drained of them is back before a shard is ready again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
import redis
from django.conf import settings
from redis.exceptions import ResponseError

from headroom_edge import keys
from quotas.endpoints import endpoint_create
from quotas.models import AuditEvent, CalendarCounter, GapRecord
from quotas.models.calendar_counter import EMPTIED
from quotas.models.revision import revisions_stamp
from quotas.models.usage import BEGINNING
from quotas.policies.edit import policy_create, policy_delete, policy_update
from quotas.publishing import store
from quotas.publishing.publisher import Publisher
from quotas.publishing.reconciler import Reconciler
from quotas.publishing.shards import Shards
from quotas.tenants import tenant_create, tier_create
from quotas.usage.drain import drain
from tenants.keyring import SEALING, new_key, wrapped
from tenants.models import KeyVersion
from tests.quotas.publishing.worlds import ENDPOINT, FORCED, SAID, publisher_for
from tests.valkeys import SpareValkey

pytestmark = pytest.mark.django_db

TENANT = "dora"
ADDRESS = "203.0.113.77"


def monthly(limit: int, **fields: Any) -> dict[str, Any]:
    return {
        "name": "monthly",
        "algorithm": "calendar_quota",
        "limit": limit,
        "period": "month",
        "unit": "cost",
    } | fields


class Store:
    """Postgres with calendar quotas of 1,000 a month, and a Valkey that it is published to."""

    def __init__(self, server: SpareValkey) -> None:
        self.server = server
        self.text = store.connect(server.url)
        self.raw = server.client()
        self.publisher: Publisher = publisher_for(self.text)
        self.publisher.publish()
        self.reconciler = Reconciler(self.publisher, self.text)

    def ask(self, function: str, *words: Any) -> Any:
        return cast("Any", self.text).fcall(f"hr_{function}", 1, keys.tenant_prefix(TENANT), TENANT, ENDPOINT, *words)

    def spend(self, cost: int, *words: str) -> tuple[str, int]:
        """Reason, and what remains of the quota."""
        reply = self.ask("check", cost, *words)
        return reply[1], reply[4]

    def lose(self) -> None:
        self.raw.flushall()
        assert self.spend(1)[0] == "not_ready"

    def mend(self) -> None:
        self.reconciler.check_shards()


@pytest.fixture
def world(valkey: redis.Redis) -> None:
    tier_create(name="free", **SAID)
    endpoint_create(name=ENDPOINT, **SAID)
    tenant_create(name=TENANT, tier="free", **SAID)
    policy_create(name="quota", tenant=TENANT, limits=[monthly(1_000)], **FORCED)


@pytest.fixture
def quotas(world: None, valkey_server: SpareValkey) -> Store:
    return Store(valkey_server)


def gaps() -> list[GapRecord]:
    return list(GapRecord.objects.exclude(start=BEGINNING))


def test_what_was_used_is_back_after_a_flush(quotas: Store) -> None:
    quotas.spend(700)
    drain(quotas.raw)
    quotas.lose()
    quotas.mend()
    assert quotas.spend(1) == ("ok", 299)
    assert AuditEvent.objects.get(kind="counters_restored").detail["records"] == 1


def test_denied_requests_are_not_counted(quotas: Store) -> None:
    quotas.spend(700)
    assert quotas.spend(400) == ("limit", 300)
    drain(quotas.raw)
    quotas.lose()
    quotas.mend()
    assert quotas.spend(1) == ("ok", 299)


def test_a_refund_and_a_reset_are_seen(quotas: Store) -> None:
    reply = quotas.ask("check", 700, "ALL")
    drain(quotas.raw)
    assert quotas.ask("refund", ":".join(str(part) for part in reply[10])) > 0
    quotas.spend(10)
    drain(quotas.raw)
    assert CalendarCounter.objects.get().used == 10
    quotas.ask("reset", "monthly")
    drain(quotas.raw)
    quotas.lose()
    quotas.mend()
    assert quotas.spend(1) == ("ok", 999)


def test_what_was_used_after_the_last_drain_is_lost_and_a_gap(quotas: Store) -> None:
    quotas.spend(700)
    last = drain(quotas.raw).at
    quotas.spend(50)
    quotas.lose()
    quotas.mend()
    assert quotas.spend(1) == ("ok", 299)
    (gap,) = gaps()
    assert (gap.start, gap.reason) == (last, EMPTIED)


def test_a_drain_that_sees_the_loss_first_notes_the_gap(quotas: Store) -> None:
    first = drain(quotas.raw).at
    quotas.spend(700)
    quotas.lose()
    second = drain(quotas.raw).at
    quotas.mend()
    noted = sorted((gap.start, gap.reason) for gap in gaps())
    assert noted == [(first, EMPTIED), (second, EMPTIED)]


@pytest.mark.parametrize("past", [False, True])
def test_the_first_publish_is_no_gap(past: bool, world: None, valkey_server: SpareValkey) -> None:
    """Also where a past was written that never was in this Redis."""
    if past:
        revisions_stamp(1)
    with valkey_server.client() as client:
        drain(client)
        Store(valkey_server)
        drain(client)
    assert gaps() == []


def test_a_server_that_restarts_empty_gets_its_counters_back(
    world: None, spare_valkey: Callable[..., SpareValkey]
) -> None:
    quotas = Store(spare_valkey(durable=False))
    quotas.spend(700)
    drain(quotas.raw)
    quotas.server.kill()
    quotas.server.start()
    quotas.mend()
    assert quotas.spend(1) == ("ok", 299)


def test_a_publisher_that_starts_after_the_loss_brings_them_back(quotas: Store) -> None:
    quotas.spend(700)
    drain(quotas.raw)
    quotas.lose()
    publisher_for(quotas.text).publish()
    assert quotas.spend(1) == ("ok", 299)


def test_counters_that_are_there_are_left_alone(quotas: Store) -> None:
    quotas.spend(700)
    drain(quotas.raw)
    quotas.spend(100)
    quotas.text.delete(keys.tenant_prefix(TENANT))
    quotas.mend()
    assert quotas.spend(1) == ("ok", 199)
    assert gaps() == []


def test_each_subject_gets_its_own_back_and_none_is_readable_in_postgres(quotas: Store) -> None:
    policy_update(name="quota", limits=[monthly(1_000, subject="user+ip")], **FORCED)
    quotas.publisher.publish()
    users = ["ann@example.org", "a name with spaces", "Zoë", "x" * 500]
    for cost, user in enumerate(users, start=10):
        quotas.spend(cost, "user", user, "ip", ADDRESS)
    drain(quotas.raw)
    stored = b"".join(bytes(row.subject) for row in CalendarCounter.objects.all())
    assert not any(text in stored for text in (b"ann", b"example", ADDRESS.encode(), b"user"))
    quotas.lose()
    quotas.mend()
    left = [quotas.spend(1, "user", user, "ip", ADDRESS) for user in users]
    assert left == [("ok", 1_000 - cost - 1) for cost in range(10, 14)]


def test_limits_of_an_endpoint_and_of_everyone_come_back_too(quotas: Store) -> None:
    policy_delete(name="quota", **FORCED)
    policy_create(name="mine", tenant=TENANT, endpoint=ENDPOINT, limits=[monthly(1_000)], **FORCED)
    policy_create(name="all", limits=[monthly(500, name="fleet", timezone="UTC")], **FORCED)
    policy_create(name="some", endpoint="search:*", limits=[monthly(600, name="service", timezone="UTC")], **FORCED)
    quotas.publisher.publish()
    quotas.spend(100)
    drain(quotas.raw)
    quotas.lose()
    quotas.mend()
    rows = {row[0]: row[4] for row in quotas.ask("peek", 1, "ALL")[12:]}
    assert {name: rows[name] for name in ("monthly", "fleet", "service")} == {
        "monthly": 899, "fleet": 399, "service": 499,
    }  # fmt: skip


def test_parameters_that_changed_since_the_drain_are_carried_over(quotas: Store) -> None:
    quotas.spend(700)
    drain(quotas.raw)
    policy_update(name="quota", limits=[monthly(2_000)], carry="proportional", **FORCED)
    quotas.raw.flushall()
    quotas.publisher.forget()
    quotas.publisher.publish()
    assert quotas.spend(1) == ("ok", 599)


def test_a_second_flush_while_counters_come_back_is_noticed(quotas: Store) -> None:
    quotas.spend(700)
    drain(quotas.raw)
    quotas.lose()
    images = {keys.shard_of(TENANT): quotas.publisher.image.shards[keys.shard_of(TENANT)]}

    def flushed(lost: list[int], version: str) -> dict[int, Exception]:
        quotas.raw.flushall()
        return {}

    shards = Shards(quotas.text, settings.HEADROOM_SHARDS, on_lost=flushed)
    shards.replace(images)
    with pytest.raises(redis.RedisError, match=r"lost|count"):
        shards.refuse_away()
    assert quotas.spend(1)[0] == "not_ready"
    with pytest.raises(ResponseError, match="HRLOST"):
        quotas.text.fcall("hr_calendars", 1, keys.tenant_prefix(TENANT), "PUT", "v1", ":00001", 1000, 1, 1, 0, 0, 1)


def test_a_shard_without_token_is_not_flipped_before_its_counters_are_back(quotas: Store) -> None:
    quotas.lose()
    shard = keys.tenant_prefix(TENANT)
    quotas.text.fcall("hr_publish", 1, shard, "STAGE", "v1", "c", "main", "{}")
    assert quotas.text.fcall("hr_publish", 1, shard, "FLIP", "v1", "9.x", 0, 1)[0] == "lost"


def test_counters_sealed_with_another_key_stay_lost_and_nothing_else_does(quotas: Store) -> None:
    policy_update(name="quota", limits=[monthly(1_000, subject="user")], **FORCED)
    quotas.publisher.publish()
    quotas.spend(700, "user", "ann")
    drain(quotas.raw)
    quotas.lose()
    KeyVersion.objects.filter(purpose=SEALING).delete()
    wrapped(SEALING, 1, new_key()).save()
    quotas.mend()
    assert quotas.spend(1, "user", "ann") == ("ok", 999)
