"""F17: a flush, a lost key, an edited entry are found and repaired, and said so; nobody goes without a policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import cast

import pytest
import redis
from django.conf import settings

from headroom_edge import keys
from quotas.api_keys import api_key_issue
from quotas.models import AuditEvent
from quotas.publishing import store
from quotas.publishing.bypass_switches import BypassSwitch, switch_off, switch_on
from quotas.publishing.reconciler import MOST_SCANS, Reconciler
from tests.quotas.publishing.conftest import Run
from tests.quotas.publishing.worlds import (
    ENDPOINT,
    SAID,
    differences,
    publisher_for,
    quota,
    tier_edit,
    tokens,
    wait_until,
)


def shard_of(tenant: str) -> int:
    return keys.shard_of(tenant, settings.HEADROOM_SHARDS)


@pytest.fixture
def reconciler(client: redis.Redis, world: None) -> Reconciler:
    publisher = publisher_for(client)
    publisher.publish()
    return Reconciler(publisher, client)


def causes() -> list[str]:
    events = AuditEvent.objects.filter(kind="shard_repaired").order_by("id")
    return [event.detail["cause"] for event in events]


def test_nothing_is_repaired_where_nothing_is_wrong(client: redis.Redis, reconciler: Reconciler) -> None:
    before = tokens(client)
    reconciler.check_shards()
    whole_round(reconciler)
    assert tokens(client) == before
    assert causes() == []


def test_flush_is_repaired(client: redis.Redis, reconciler: Reconciler) -> None:
    client.flushall()
    reconciler.check_shards()
    assert differences(client) == []
    assert causes() == ["the token was missing", "API keys were missing", "routes were missing or edited"]


def test_flush_of_the_functions_is_repaired(client: redis.Redis, reconciler: Reconciler) -> None:
    client.function_flush()
    reconciler.check_shards()
    assert quota(client, "acme") == 10


@pytest.mark.parametrize("key", [keys.config, keys.tenants])
def test_lost_key_is_repaired(client: redis.Redis, reconciler: Reconciler, key: Callable[[int], str]) -> None:
    client.delete(key(shard_of("acme")))
    reconciler.check_shards()
    assert differences(client) == []
    assert causes() == ["fields were missing"]


def test_shard_that_somebody_set_back_is_repaired(client: redis.Redis, reconciler: Reconciler) -> None:
    client.set(keys.shard_prefix(shard_of("acme")), "1.0123456789abcdef")
    reconciler.check_shards()
    assert differences(client) == []
    assert causes() == ["the token was another"]


def test_edited_entry_is_repaired(client: redis.Redis, reconciler: Reconciler) -> None:
    client.hset(keys.tenants(shard_of("acme")), "acme", "00001!")
    reconciler.check_shards()
    assert causes() == []
    whole_round(reconciler)
    assert differences(client) == []
    assert causes() == ["fields were edited"]
    assert AuditEvent.objects.get(kind="shard_repaired").detail["fields"] == ["acme"]


def test_edited_plan_is_repaired(client: redis.Redis, reconciler: Reconciler) -> None:
    config = keys.config(shard_of("acme"))
    name = next(name for name in cast("list[str]", client.hkeys(config)) if name.startswith("p:"))
    client.hset(config, name, b"\xff not even text")
    whole_round(reconciler)
    assert differences(client) == []


def test_exchanged_entry_is_repaired(client: redis.Redis, reconciler: Reconciler) -> None:
    """As many entries as before, and one of them foreign."""
    client.hdel(keys.tenants(shard_of("acme")), "acme")
    client.hset(keys.tenants(shard_of("acme")), "mallory", "00001t1")
    whole_round(reconciler)
    assert differences(client) == []


def test_lost_and_edited_api_keys_are_repaired(client: redis.Redis, world: None) -> None:
    key_id = api_key_issue(tenant="acme", **SAID).row.key_id
    publisher = publisher_for(client)
    publisher.publish()
    reconciler = Reconciler(publisher, client)
    index = keys.registered(shard_of("acme"))
    held = client.hgetall(index)
    client.delete(index)
    reconciler.check_shards()
    assert client.hgetall(index) == held
    client.hset(index, key_id, "zzzzz")
    whole_round(reconciler)
    assert client.hgetall(index) == held
    assert causes() == ["API keys were missing", "API keys were edited"]


def test_publisher_that_is_behind_repairs_nothing(client: redis.Redis, reconciler: Reconciler) -> None:
    tier_edit(11)
    publisher_for(client).publish()
    reconciler.check_shards()
    assert quota(client, "acme") == 11
    assert causes() == []


def test_a_sweep_is_short_however_much_is_due(
    client: redis.Redis, reconciler: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit may be waiting meanwhile."""
    monkeypatch.setattr("quotas.publishing.reconciler.ROUND_SECONDS", 1e-9)  # so a whole round is due at once
    client.config_resetstat()
    reconciler.sweep()
    scans = client.info("commandstats")["cmdstat_hscan"]["calls"]
    assert scans == MOST_SCANS < 4 * settings.HEADROOM_SHARDS


def whole_round(reconciler: Reconciler) -> None:
    for _ in range(4 * 3 * settings.HEADROOM_SHARDS):
        reconciler.sweep()


def test_flush_under_load_never_means_no_policy(client: redis.Redis, world: None, run: Run) -> None:
    run("serve")
    wait_until(lambda: reason(client) == "ok", "first publish")
    client.flushall()
    assert reasons_until_ok(client) <= {"ok", "not_ready"}
    client.delete(keys.config(shard_of("acme")))
    assert reasons_until_ok(client) <= {"ok", "not_ready"}
    wait_until(lambda: differences(client) == [], "the repair of all shards")


def reasons_until_ok(client: redis.Redis) -> set[str]:
    reasons: list[str] = []

    def is_ok() -> bool:
        reasons.append(reason(client))
        return reasons[-1] == "ok"

    wait_until(is_ok, "the repair")
    return set(reasons)


def reason(client: redis.Redis) -> str:
    return str(client.fcall("hr_peek", 1, keys.tenant_prefix("acme"), "acme", ENDPOINT, "1")[1])


def test_bypass_is_noted_once_for_each_change(client: redis.Redis, reconciler: Reconciler) -> None:
    switch = BypassSwitch("tenant", "acme", store.now_us(client) + 60_000_000, "outage")
    switch_on(client, settings.HEADROOM_SHARDS, switch)
    reconciler.record_bypass()
    reconciler.record_bypass()
    Reconciler(publisher_for(client), client).record_bypass()  # another process, later
    assert [event.detail["on"] for event in noted()] == [[asdict(switch)]]
    switch_off(client, settings.HEADROOM_SHARDS, None)
    reconciler.record_bypass()
    assert [event.detail["on"] for event in noted()] == [[asdict(switch)], []]


def noted() -> list[AuditEvent]:
    return list(AuditEvent.objects.filter(kind="bypass_changed").order_by("id"))
