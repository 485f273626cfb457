"""The control plane on a cluster of which every node is well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.conf import settings
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from headroom_edge import keys
from headroom_edge.lua_library import VERSION, stored_version
from quotas.api_keys import api_key_issue
from quotas.demo.seeding import is_published
from quotas.erasure.subjects import subject_erase
from quotas.models import AuditEvent
from quotas.publishing import nodes, store
from quotas.publishing.bypass_switches import BypassSwitch, switch_off, switch_on, switches_read
from quotas.publishing.enforcers import enforcers_read
from quotas.publishing.publisher import Publisher
from quotas.publishing.queries import call_quantiles
from quotas.publishing.reconciler import Reconciler
from tests.clusters import SpareCluster
from tests.quotas.publishing.test_reconciler import causes, whole_round
from tests.quotas.publishing.worlds import (
    ENDPOINT,
    SAID,
    differences,
    publisher_for,
    quota,
    tenant_edit,
    tier_edit,
    tokens,
)


@pytest.fixture
def text(cluster: SpareCluster) -> Iterator[redis.Redis]:
    with store.connect(cluster.url) as client:
        yield client


@pytest.fixture
def publisher(text: redis.Redis, world: None) -> Publisher:
    found = publisher_for(text)
    found.publish()
    return found


def on_each(cluster: SpareCluster) -> list[int]:
    """The version of the library on each primary."""
    found = []
    for node in cluster.primaries():
        with node.client() as client:
            found.append(stored_version(client))
    return found


def test_every_primary_gets_its_shards_and_the_library(
    cluster: SpareCluster, text: redis.Redis, publisher: Publisher
) -> None:
    assert differences(text) == []
    assert on_each(cluster) == [VERSION] * 3
    assert [name for name, _ in store.primaries(text)] == sorted(f"127.0.0.1:{n.port}" for n in cluster.primaries())
    assert publisher.applied == publisher.image.revision


def test_a_delta_changes_only_its_shard(text: redis.Redis, publisher: Publisher) -> None:
    before = tokens(text)
    tenant_edit(31)
    publisher.publish()
    changed = [shard for shard, pair in enumerate(zip(before, tokens(text), strict=True)) if pair[0] != pair[1]]
    assert changed == [keys.shard_of("carol", settings.HEADROOM_SHARDS)]
    assert quota(text, "carol") == 31
    assert differences(text) == []


def test_a_node_that_was_flushed_is_repaired(cluster: SpareCluster, text: redis.Redis, publisher: Publisher) -> None:
    lost = cluster.owner_of(keys.shard_prefix(0))
    cluster.on(lost, "FLUSHALL")
    Reconciler(publisher, text).check_shards()
    assert differences(text) == []
    (event,) = AuditEvent.objects.filter(kind="shard_repaired", detail__cause="the token was missing")
    assert event.detail["shards"] == [
        shard for shard in range(settings.HEADROOM_SHARDS) if cluster.owner_of(keys.shard_prefix(shard)) is lost
    ]


def test_a_library_that_one_node_lost_is_loaded_again(
    cluster: SpareCluster, text: redis.Redis, publisher: Publisher
) -> None:
    node = cluster.primaries()[1]
    cluster.on(node, "FUNCTION", "FLUSH")
    Reconciler(publisher, text).check_shards()
    assert on_each(cluster) == [VERSION] * 3
    (event,) = AuditEvent.objects.filter(kind="shard_repaired")
    assert event.detail["cause"] == "the function library was missing or old"
    assert event.detail["fields"] == [f"127.0.0.1:{node.port}"]


def test_publishing_loads_a_library_that_one_node_lost(
    cluster: SpareCluster, text: redis.Redis, publisher: Publisher
) -> None:
    cluster.on(cluster.primaries()[2], "FUNCTION", "FLUSH")
    tier_edit(12)
    publisher.publish()
    assert on_each(cluster) == [VERSION] * 3
    assert differences(text) == []


def test_an_edited_field_is_found(text: redis.Redis, publisher: Publisher) -> None:
    reconciler = Reconciler(publisher, text)
    text.hset(keys.tenants(5), "stranger", "00001t1")
    whole_round(reconciler)
    assert differences(text) == []
    assert causes() == ["fields were edited"]


def test_keys_and_routes_arrive_and_come_back(cluster: SpareCluster, text: redis.Redis, publisher: Publisher) -> None:
    issued = api_key_issue(tenant="acme", scopes=["check"], **SAID)
    publisher.publish()
    place = keys.credentials(keys.shard_of(issued.row.secret_hash, settings.HEADROOM_SHARDS))
    assert text.hexists(place, issued.row.secret_hash)
    assert ENDPOINT in str(text.hgetall(keys.directory()))
    for node in cluster.primaries():
        cluster.on(node, "FLUSHALL")
    Reconciler(publisher, text).check_shards()
    assert text.hexists(place, issued.row.secret_hash)
    assert text.hgetall(keys.directory())


def test_a_bypass_is_on_and_off_everywhere(text: redis.Redis, publisher: Publisher) -> None:
    switch = BypassSwitch("tenant", "acme", store.now_us(text) + 60 * store.SECOND_US, "test")
    switch_on(text, settings.HEADROOM_SHARDS, switch)
    assert all("+" in token for token in tokens(text))
    assert switches_read(text, settings.HEADROOM_SHARDS) == [switch]
    assert switch_off(text, settings.HEADROOM_SHARDS, None) == [switch]
    assert switches_read(text, settings.HEADROOM_SHARDS) == []
    places = (*range(settings.HEADROOM_SHARDS), keys.EVERYONES_SHARD)
    assert {text.get(keys.bypass(place)) for place in places} == {"[]"}


def test_a_subject_is_erased_on_every_node(text: redis.Redis, publisher: Publisher) -> None:
    records = [f"{keys.shard_prefix(shard)}:00001/user:ann" for shard in range(settings.HEADROOM_SHARDS)]
    for record in records:
        text.set(record, "x")
    traces = subject_erase(client=text, value="ann", **SAID)
    assert traces[0].count == len(records)
    assert store.exist_many(text, records) == 0


def test_what_pages_and_metrics_ask_is_answered(text: redis.Redis, publisher: Publisher) -> None:
    assert enforcers_read(text) == []
    assert call_quantiles(text)
    found = nodes.nodes_read(text, settings.HEADROOM_SHARDS)
    owners = [node for node in found if node.is_primary]
    assert [node.state for node in found].count("primary") == len(owners) == 3
    assert sum(node.slot_count for node in owners) == 16_384
    assert sorted(shard for node in owners for shard in node.shards) == list(range(settings.HEADROOM_SHARDS))
    assert [node.warnings for node in owners] == [[], [], []]
    assert {node.primary for node in found if not node.is_primary} == {node.name for node in owners}


def test_warnings_name_what_to_change(cluster: SpareCluster, text: redis.Redis, publisher: Publisher) -> None:
    node = cluster.primaries()[0]
    cluster.on(node, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "cluster-require-full-coverage", "yes")
    try:
        found = {each.name: each for each in nodes.nodes_read(text, settings.HEADROOM_SHARDS)}
        evicting, whole = found[f"127.0.0.1:{node.port}"].warnings
        assert evicting == "maxmemory-policy is allkeys-lru; set it to noeviction"
        assert whole.startswith("cluster-require-full-coverage is yes")
        with pytest.raises(store.UnfitServerError, match=f"allkeys-lru on 127.0.0.1:{node.port}"):
            store.prepare(text)
    finally:
        cluster.on(node, "CONFIG", "SET", "maxmemory-policy", "noeviction", "cluster-require-full-coverage", "no")


def test_the_url_of_a_node_is_refused_with_the_one_to_write(
    cluster: SpareCluster, settings: Settings, transactional_db: None
) -> None:
    settings.REDIS_URL = f"redis://somebody:secret@127.0.0.1:{cluster.nodes[0].port}/0"
    with cluster.nodes[0].client() as node:
        node.acl_setuser("somebody", enabled=True, passwords=["+secret"], commands=["+@all"], keys=["*"])
    with pytest.raises(CommandError) as refused:
        call_command("publish")
    assert f"write redis+cluster://127.0.0.1:{cluster.nodes[0].port}" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_the_url_of_a_cluster_is_refused_for_a_single_server(
    valkey_url: str, settings: Settings, transactional_db: None
) -> None:
    settings.REDIS_URL = valkey_url.replace("redis:", "redis+cluster:").removesuffix("/0")
    with pytest.raises(CommandError, match=r"is a single server.* write redis://127\.0\.0\.1"):
        call_command("publish")


def test_an_edit_on_an_installation_with_a_cluster_is_published(
    cluster: SpareCluster, settings: Any, text: redis.Redis, world: None
) -> None:
    settings.REDIS_URL = cluster.url
    publisher = publisher_for(text)
    publisher.publish()
    tier_edit(14)
    publisher.publish()
    assert quota(text, "acme") == 14
    assert not is_published()  # no heartbeat yet: only the process tells
