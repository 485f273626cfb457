from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import Any

import pytest
from django.contrib.postgres.functions import TransactionNow
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone

from config import health
from headroom_edge import AsyncLimiter
from headroom_edge.gateway.server import Gateway
from quotas.models import Change
from quotas.models.change import ChangeState
from quotas.models.jobs import Delivery, Heartbeat, record_heartbeat, record_publish_trouble
from tests.clusters import SpareCluster
from tests.headroom_edge.gateway.rls.asking import serving
from tests.headroom_edge.world import served
from tests.valkeys import SpareValkey

pytestmark = pytest.mark.django_db


def ask(client: Client) -> tuple[int, dict[str, Any]]:
    response = client.get("/healthz")
    return response.status_code, json.loads(response.content)


@pytest.fixture
def all_alive(valkey_server: SpareValkey, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ample time for each part: a test of a time-out sets its own."""
    monkeypatch.setattr(health, "TIMEOUT_SECONDS", 60)
    monkeypatch.setattr(health, "NODE_SECONDS", 60)
    record_heartbeat("publisher", "42")
    record_heartbeat("worker")
    record_heartbeat("beat")
    record_heartbeat("watch")


def age(name: str, seconds: int) -> None:
    """As of the transaction's time, by which the page measures the age."""
    Heartbeat.objects.filter(name=name).update(at=TransactionNow() - timedelta(seconds=seconds))


@pytest.mark.usefixtures("all_alive")
def test_all_well_is_200_with_every_part(client: Client) -> None:
    assert ask(client) == (
        200,
        {
            "status": "ok",
            "database": "ok",
            "redis": "ok",
            "published_revision": 42,
            "publisher": "ok",
            "worker": "ok",
            "beat": "ok",
            "watch": "ok",
            "schedule": "ok",
            "tasks": "ok",
            "keys": "ok",
        },
    )


@pytest.mark.usefixtures("all_alive")
def test_a_task_that_was_set_aside_is_named_and_leaves_the_rest_well(client: Client) -> None:
    at = datetime(2031, 3, 5, 14, 30, tzinfo=UTC)
    Delivery.objects.create(task_id="a", job="quotas.run_task", times=4, at=at, is_set_aside=True)
    Delivery.objects.create(task_id="b", job="quotas.drain", times=2, at=at + timedelta(days=1))
    status, body = ask(client)
    assert (status, body["status"]) == (200, "ok")
    assert (
        body["tasks"] == "1 set aside, the latest one quotas.run_task, delivered 4 times until 2031-03-05 14:30:00 UTC"
    )


@pytest.mark.usefixtures("all_alive")
def test_a_change_that_nobody_applies_is_503_with_when_it_was_due(client: Client) -> None:
    due = timezone.now() - timedelta(seconds=30)
    about = {"action": "policy_update", "author": "ann", "reason": "because", "touched": ["policy:pro-all"]}
    change = Change.objects.create(**about, before={}, after={}, state=ChangeState.SCHEDULED, at=due)
    status, body = ask(client)
    assert status == 503
    assert body["reason"] == f"schedule: {change} was due at {due:%Y-%m-%d %H:%M:%S} UTC"


@pytest.mark.usefixtures("all_alive")
def test_the_watch_has_a_minute_to_run_after_a_start(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_STARTED", time.monotonic())
    age("watch", 3_600)
    assert ask(client)[0] == 200
    Heartbeat.objects.filter(name="watch").delete()
    assert ask(client)[1]["watch"] == "has not run yet"


@pytest.mark.usefixtures("all_alive")
@pytest.mark.parametrize("name", ["publisher", "worker", "beat", "watch"])
def test_a_silent_process_is_503_with_its_name_and_how_long(
    client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_STARTED", -1_000)
    age(name, 90)
    status, body = ask(client)
    assert status == 503
    assert body["reason"] == f"{name}: silent for 90 s"


@pytest.mark.usefixtures("all_alive")
def test_a_process_that_never_reported_is_503(client: Client) -> None:
    Heartbeat.objects.filter(name="worker").delete()
    status, body = ask(client)
    assert (status, body["reason"]) == (503, "worker: has not reported yet")


@pytest.mark.usefixtures("all_alive")
def test_a_dead_redis_is_503_with_the_reason(client: Client, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    status, body = ask(client)
    assert status == 503
    assert body["reason"].startswith("redis: ")
    assert "refused" in body["reason"]
    assert body["database"] == "ok"


@pytest.mark.usefixtures("all_alive")
def test_a_failing_publisher_is_503_with_the_reason_and_the_revision_that_all_shards_have(client: Client) -> None:
    record_publish_trouble("21 of 64 shards failed: Connection refused")
    status, body = ask(client)
    assert (status, body["published_revision"]) == (503, 42)
    assert body["reason"] == "publisher: 21 of 64 shards failed: Connection refused"
    record_publish_trouble("")
    assert ask(client)[0] == 200


@pytest.mark.usefixtures("all_alive")
def test_the_url_of_a_clusters_node_is_503_with_the_one_to_write(
    client: Client, settings: Any, cluster: SpareCluster
) -> None:
    port = cluster.nodes[0].port
    settings.REDIS_URL = f"redis://127.0.0.1:{port}/0"
    status, body = ask(client)
    assert status == 503
    assert body["redis"].endswith(f"write redis+cluster://127.0.0.1:{port}")
    settings.REDIS_URL = cluster.url
    assert ask(client)[0] == 200


@pytest.mark.usefixtures("all_alive")
def test_the_url_of_a_cluster_for_a_single_server_is_503(client: Client, settings: Any, valkey_url: str) -> None:
    settings.REDIS_URL = valkey_url.replace("redis:", "redis+cluster:").removesuffix("/0")
    status, body = ask(client)
    assert status == 503
    assert "is a single server" in body["redis"]


@pytest.mark.usefixtures("all_alive")
def test_the_gateway_is_a_part_where_there_is_one(client: Client, settings: Any) -> None:
    with served(Gateway(AsyncLimiter.from_url(settings.REDIS_URL))) as gateway:
        settings.GATEWAY_URL = f"http://127.0.0.1:{gateway.port}"
        status, body = ask(client)
        assert (status, body["gateway"]) == (200, "ok")
        settings.GATEWAY_URL += "/nowhere"
        assert ask(client)[1]["reason"] == "gateway: responds with 404"
    settings.GATEWAY_URL = "http://127.0.0.1:1"
    status, body = ask(client)
    assert status == 503
    assert "refused" in body["gateway"]


@pytest.mark.usefixtures("all_alive")
def test_the_rate_limit_service_is_a_part_where_there_is_one(client: Client, settings: Any) -> None:
    with serving(AsyncLimiter.from_url(settings.REDIS_URL)) as rls:
        settings.RLS_URL = f"http://127.0.0.1:{rls.port}"
        status, body = ask(client)
        assert (status, body["rls"]) == (200, "ok")
    status, body = ask(client)
    assert status == 503
    assert "refused" in body["rls"]


@pytest.mark.usefixtures("all_alive")
def test_a_redis_that_hangs_is_503_within_its_time_out(
    client: Client, settings: Any, spare_valkey: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "TIMEOUT_SECONDS", 0.1)
    server = spare_valkey()
    settings.REDIS_URL = server.url
    server.pause()
    status, body = ask(client)
    assert status == 503
    assert "imeout" in body["redis"]


@pytest.mark.usefixtures("all_alive")
def test_a_primary_that_hangs_is_503_with_its_address_until_it_answers(
    client: Client, settings: Any, spare_cluster: SpareCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "NODE_SECONDS", 3)
    for node in spare_cluster.nodes:  # so that its replica does not take over meanwhile
        spare_cluster.on(node, "CONFIG", "SET", "cluster-node-timeout", 300_000)
    settings.REDIS_URL = spare_cluster.url
    assert ask(client)[0] == 200
    primary = spare_cluster.primaries()[0]
    primary.pause()
    status, body = ask(client)
    assert status == 503
    assert f"127.0.0.1:{primary.port}: Timeout" in body["redis"]
    assert body["reason"] == f"redis: {body['redis']}"
    primary.resume()
    spare_cluster.wait_for(lambda: ask(client)[0] == 200, "every primary answers")


@pytest.mark.usefixtures("all_alive")
def test_a_cluster_that_hangs_is_503_within_one_time_out(
    client: Client, settings: Any, spare_cluster: SpareCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "TIMEOUT_SECONDS", 0.2)
    settings.REDIS_URL = spare_cluster.url
    for node in spare_cluster.nodes:
        node.pause()
    began = time.monotonic()
    status, body = ask(client)
    assert time.monotonic() - began < 20
    for node in spare_cluster.nodes:
        node.resume()
    assert (status, body["redis"]) == (503, "several servers of the cluster do not answer within 0.2 s")


@pytest.mark.usefixtures("all_alive")
def test_a_dead_database_is_503_and_hides_nothing_else(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OperationalError("connection refused\nIs the server running?")

    monkeypatch.setattr(connection, "cursor", fail)
    status, body = ask(client)
    assert status == 503
    assert body["database"] == "connection refused"
    assert body["redis"] == "ok"
    assert body["worker"] == "unknown while the database is down"
    assert body["published_revision"] is None


def test_only_reading_is_allowed(client: Client) -> None:
    assert client.post("/healthz").status_code == 405


def test_metrics_are_for_the_named_peers_only(client: Client, settings: Any) -> None:
    settings.HEADROOM_METRICS_FROM = (ip_network("127.0.0.0/8"),)
    assert b"django_http_requests" in client.get("/metrics").content
    assert client.get("/metrics", REMOTE_ADDR="::ffff:127.0.0.1").status_code == 200
    for address in ("203.0.113.9", "nonsense", "", "::1"):
        assert client.get("/metrics", REMOTE_ADDR=address).status_code == 403
    settings.HEADROOM_METRICS_FROM = ()
    assert client.get("/metrics").status_code == 403


@pytest.mark.parametrize("name", ["forwarded", "via", "x-real-ip", "x-forwarded-for", "x-forwarded-host"])
def test_metrics_are_not_for_whoever_comes_through_a_proxy(client: Client, name: str) -> None:
    assert client.get("/metrics", headers={name: "203.0.113.9"}).status_code == 403
