"""/metrics: figures of the whole, in a number of queries that does not grow."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
import redis
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from quotas import metrics
from quotas.models import (
    AlertDelivery,
    AlertState,
    AlertTarget,
    Delivery,
    DrainState,
    FoldState,
    Heartbeat,
    Outbox,
    Revision,
)
from quotas.models.jobs import record_publish_trouble
from quotas.models.usage_totals import TierUse
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.status.metrics_collector import StatusCollector
from quotas.tenants import NewTenant, tenants_create
from quotas.usage.rollups import add_tally
from tenants.models import Tier
from tests.quotas.world import SAID, make_world

pytestmark = pytest.mark.django_db


def scraped() -> dict[str, list[tuple[dict[str, str], float]]]:
    answer = Client().get("/metrics")
    assert answer.status_code == 200
    families = text_string_to_metric_families(answer.content.decode())
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def ago(seconds: int) -> datetime:
    """By the database's clock, which stands still while the test's transaction lasts."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        (now,) = cursor.fetchone()
    moment: datetime = now - timedelta(seconds=seconds)
    return moment


def counted(number: int, endpoint: int = 0, outcome: str = "a") -> None:
    add_tally(Cells.of([Cell(1_900_000_000, CellSeries(1, endpoint, outcome, 0), number, number)]))


def test_every_check_that_was_drained_is_in_the_counters(valkey: redis.Redis) -> None:
    make_world()
    counted(3)
    counted(2, outcome="d")
    counted(4)
    rows = {labels["outcome"]: value for labels, value in scraped()["headroom_checks_total"]}
    assert rows == {"allowed": 7.0, "denied": 2.0}


def test_lag_and_heartbeats_are_ages(valkey: redis.Redis) -> None:
    DrainState.objects.create(drained_at=ago(30), run_id="x")
    FoldState.objects.create(name="minutes", until=ago(30))
    Heartbeat.objects.create(name="publisher", at=ago(30), detail="7")
    found = scraped()
    for name in ("headroom_drain_lag_seconds", "headroom_fold_lag_seconds", "headroom_heartbeat_age_seconds"):
        assert found[name][0][1] == 30
    assert found["headroom_published_revision"] == [({}, 7.0)]


def test_the_servers_of_the_store_are_counted(valkey: redis.Redis) -> None:
    found = scraped()
    assert {labels["state"]: value for labels, value in found["headroom_store_nodes"]} == {
        "primary": 1.0,
        "replica": 0.0,
        "away": 0.0,
    }
    assert [value for _, value in found["headroom_store_clock_skew_seconds"]] == [0.0]


def test_a_failing_publisher_is_no_process_of_its_own(valkey: redis.Redis) -> None:
    record_publish_trouble("refused")
    assert "headroom_heartbeat_age_seconds" not in scraped()


def test_an_edit_that_waits_shows(valkey: redis.Redis) -> None:
    make_world()
    Outbox.objects.update(created=ago(300))
    found = scraped()
    assert found["headroom_unpublished_seconds"][0][1] == 300
    assert found["headroom_revision"][0][1] == Revision.objects.count()


def test_the_fullest_limits_name_whoever_came_nearest(valkey: redis.Redis) -> None:
    make_world()
    tier = Tier.objects.get(name="free")
    peaks = {"in_1s": 9, "in_10s": 90, "in_60s": 540, "in_hour": 600, "in_all": 1_000, "denied": 100}
    TierUse.objects.create(
        tier_number=tier.pk, endpoint_number=-1, measured_at=timezone.now(), tenants=1, asked=1_000, denied=100,
        busiest=1, peaks=peaks,
    )  # fmt: skip
    found = scraped()
    assert {labels["tier"]: value for labels, value in found["headroom_tier_denied_ratio"]}["free"] == 0.1
    assert all(labels["tier"] == "free" for labels, _ in found["headroom_limit_utilisation_ratio"])


def test_trouble_is_counted(valkey: redis.Redis) -> None:
    now = timezone.now()
    AlertState.objects.create(name="degraded", about="", value=1, text="x", since=now, seen_at=now, told_at=now)
    Delivery.objects.create(task_id="1", job="drain", times=3, at=now, is_set_aside=True)
    found = scraped()
    assert found["headroom_alerts_firing"] == [({"alert": "degraded"}, 1.0)]
    assert found["headroom_tasks_set_aside"] == [({}, 1.0)]


def failed_message(target: AlertTarget, **facts: object) -> None:
    AlertDelivery.objects.create(**{"target": target, "body": {}, "due_at": ago(0), "problem": "answered 500", **facts})


def test_messages_that_fail_are_counted_for_a_day(valkey: redis.Redis) -> None:
    target = AlertTarget.objects.create(kind="webhook", address="https://example.org/hook")
    off = AlertTarget.objects.create(kind="webhook", address="https://example.org/old", is_on=False)
    failed_message(target)
    failed_message(target, is_given_up=True, due_at=ago(20 * 3600))
    failed_message(target, is_given_up=True, due_at=ago(25 * 3600))
    failed_message(target, problem="")  # not tried yet
    failed_message(target, problem="", sent_at=ago(10))
    failed_message(off)
    assert scraped()["headroom_alert_messages_failing"] == [({}, 2.0)]


def test_it_costs_the_same_with_more_tenants(valkey: redis.Redis) -> None:
    make_world()
    with CaptureQueriesContext(connection) as few:
        list(StatusCollector().collect())
    tenants_create(tenants=[NewTenant(f"more-{number}", "free") for number in range(50)], **SAID)
    with CaptureQueriesContext(connection) as many:
        list(StatusCollector().collect())
    assert len(many) == len(few) <= 27


def test_redis_away_is_said_and_leaves_the_rest(valkey: redis.Redis, settings: object) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"  # type: ignore[attr-defined]
    found = scraped()
    assert {labels["store"]: value for labels, value in found["headroom_store_up"]} == {"postgres": 1, "redis": 0}
    assert "headroom_revision" in found
    assert "headroom_enforcers" not in found


def test_everything_that_is_declared_is_collected(valkey: redis.Redis) -> None:
    """A rule for Prometheus over a metric that is declared and never served could not fire."""
    families = list(StatusCollector().collect())
    collected = [f"{family.name}_total" if family.type == "counter" else family.name for family in families]
    assert sorted(collected) == sorted(figure.name for figure in metrics.COLLECTED_METRICS)


def test_every_declared_metric_is_in_the_list() -> None:
    declared = [figure for figure in vars(metrics).values() if isinstance(figure, metrics.MetricDefinition)]
    assert sorted(declared, key=str) == sorted(metrics.COLLECTED_METRICS, key=str)


def test_every_figure_has_a_name_of_its_own() -> None:
    names = [family.name for family in StatusCollector().describe()]
    assert len(set(names)) == len(names) == len(metrics.COLLECTED_METRICS)
