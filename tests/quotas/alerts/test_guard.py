"""The dead-man's switch: when nothing evaluates the alerts, somebody else tells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from quotas.alerts.guard import WatchGuard
from quotas.alerts.settings import alert_setting_set, alert_target_create
from quotas.alerts.watch import CLEAR, alerts_watch
from quotas.locks import Lock
from quotas.models import AlertDelivery, AlertSetting, AlertState, Heartbeat
from quotas.models.jobs import WATCH, record_heartbeat, slot_done, slot_take
from quotas.tasks import watch_alerts
from tests.quotas.alerts.receivers import Receiver, receiving
from tests.quotas.test_locks import other_process
from tests.quotas.world import SAID

pytestmark = pytest.mark.django_db
LONG_AGO = timedelta(hours=1)


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    settings.HEADROOM_ALERT_NETWORKS = (ip_network("127.0.0.0/8"),)
    # What else is wrong with an empty installation is no concern here.
    AlertSetting.objects.create(name="degraded", threshold=1, is_on=False)
    with receiving() as server:
        alert_target_create(kind="webhook", address=server.url, **SAID)
        yield server


@pytest.fixture
def guard() -> WatchGuard:
    return WatchGuard(first=timezone.now() - LONG_AGO)


def last_run(seconds_ago: int) -> None:
    record_heartbeat(WATCH)
    Heartbeat.objects.filter(name=WATCH).update(at=Now() - timedelta(seconds=seconds_ago))


def told(server: Receiver) -> list[tuple[str, str]]:
    bodies = [json.loads(data) for _, _, data in server.got]
    return [(event["alert"], event["state"]) for body in bodies for event in body["events"]]


def test_a_silent_watch_is_told_once(receiver: Receiver, guard: WatchGuard) -> None:
    last_run(59)
    guard.check_watch()
    assert told(receiver) == []
    last_run(75)
    guard.check_watch()
    guard.check_watch()
    assert told(receiver) == [("watch-silent", "firing")]
    (event,) = json.loads(receiver.got[0][2])["events"]
    assert event["severity"] == "critical"
    assert event["text"].startswith("no alert has been evaluated for 7")


def test_a_watch_that_never_ran_is_silent_too(receiver: Receiver, guard: WatchGuard) -> None:
    guard.check_watch()
    assert told(receiver) == [("watch-silent", "firing")]


def test_a_worker_of_the_last_release_counts(receiver: Receiver, guard: WatchGuard) -> None:
    last_run(75)
    assert slot_take(job=watch_alerts.name, slot=1, task_id="a")
    slot_done(job=watch_alerts.name, slot=1)
    guard.check_watch()
    assert told(receiver) == []
    # It began another one and is stuck in it.
    assert slot_take(job=watch_alerts.name, slot=2, task_id="b")
    guard.check_watch()
    assert told(receiver) == [("watch-silent", "firing")]


def test_after_a_start_the_watch_has_its_time(receiver: Receiver) -> None:
    last_run(3_600)
    WatchGuard().check_watch()
    assert told(receiver) == []


def test_the_watch_itself_tells_that_it_is_back(receiver: Receiver, guard: WatchGuard) -> None:
    guard.check_watch()
    now = timezone.now()
    assert alerts_watch(now) == []
    (event,) = alerts_watch(now + CLEAR + timedelta(seconds=1))
    assert (event.alert, event.state) == ("watch-silent", "resolved")
    last_run(75)
    guard.check_watch()
    assert told(receiver).count(("watch-silent", "firing")) == 2


def test_it_can_be_set_and_turned_off(receiver: Receiver, guard: WatchGuard) -> None:
    last_run(75)
    alert_setting_set(name="watch-silent", threshold=120, **SAID)
    guard.check_watch()
    alert_setting_set(name="watch-silent", threshold=None, is_on=False, **SAID)
    guard.check_watch()
    assert guard.memory is not None
    guard.check_database(guard.memory.read_s + 3_600)
    assert told(receiver) == []


@pytest.mark.django_db(transaction=True)
def test_a_lock_that_is_never_released_is_told(receiver: Receiver, guard: WatchGuard) -> None:
    last_run(75)
    with other_process() as stuck:
        stuck.execute("BEGIN")
        stuck.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [Lock.ALERTS.value])
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 200")
        with pytest.raises(OperationalError):
            alerts_watch()
        connection.close()
        guard.check_watch()
    assert told(receiver) == [("watch-silent", "firing")]


def test_while_postgres_is_away_the_targets_are_told_from_memory(
    receiver: Receiver, guard: WatchGuard, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    last_run(10)
    guard.check_watch()
    assert guard.memory is not None
    with django_assert_num_queries(0):
        guard.check_database(guard.memory.read_s + 59)
        guard.check_database(guard.memory.read_s + 61)
        guard.check_database(guard.memory.read_s + 71)
    assert told(receiver) == [("watch-silent", "firing")]
    assert b"PostgreSQL has not answered for 61 s" in receiver.got[0][2]
    # It comes back: the alert is stored as told, so that the watch tells that it is over.
    guard.check_watch()
    assert not AlertDelivery.objects.exists()
    assert AlertState.objects.get().told_at is not None
    (event,) = alerts_watch(timezone.now() + CLEAR + timedelta(seconds=1))
    assert event.state == "resolved"


def test_who_could_not_be_told_from_memory_is_told_later(receiver: Receiver, guard: WatchGuard) -> None:
    guard.check_watch()
    receiver.got.clear()
    receiver.status = 500
    assert guard.memory is not None
    guard.check_database(guard.memory.read_s + 61)
    receiver.status = 204
    guard.check_database(guard.memory.read_s + 71)
    guard.check_database(guard.memory.read_s + 81)
    assert len(receiver.got) == 2


def test_who_was_not_reached_from_memory_is_told_when_postgres_is_back(receiver: Receiver, guard: WatchGuard) -> None:
    with receiving() as other:
        alert_target_create(kind="webhook", address=other.url, **SAID)
        last_run(10)
        guard.check_watch()
        other.status = 500
        assert guard.memory is not None
        guard.check_database(guard.memory.read_s + 61)
        other.got.clear()
        other.status = 204
        last_run(75)
        guard.check_watch()
        guard.check_watch()
        assert told(receiver) == told(other) == [("watch-silent", "firing")]


def test_the_watch_beats_only_when_it_ran_to_its_end(receiver: Receiver) -> None:
    assert not Heartbeat.objects.filter(name=WATCH).exists()
    alerts_watch()
    assert Heartbeat.objects.filter(name=WATCH).exists()
