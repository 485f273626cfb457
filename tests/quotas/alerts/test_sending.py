"""F35: a receiver that drips is given up after one deadline and tried later; it delays nobody else."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import Any

import pytest
from django.utils.module_loading import import_string

from config import settings as project
from quotas.alerts import delivery, webhook
from quotas.alerts.mail import TimedBackend
from quotas.alerts.messages import AlertEvent, body_of
from quotas.alerts.queries import targets_unreached
from quotas.alerts.sending import AT_ONCE, FIRST_WAIT, MOST_TRIES, OLDEST, alerts_send
from quotas.alerts.settings import alert_target_create
from quotas.alerts.watch import alerts_watch
from quotas.locks import Lock
from quotas.models import AlertDelivery, AlertSetting, AlertTarget
from tenants.secrets import sealer
from tests.quotas.alerts.receivers import GREETING, HEAD, Receiver, dripping, receiving
from tests.quotas.test_locks import is_free, other_process
from tests.quotas.world import SAID

NOW = datetime(2031, 3, 5, 14, 30, tzinfo=UTC)
EVENT = AlertEvent("drain-lag", "", "firing", "warning", 70, 60, "the counters are late", NOW.isoformat(), "")
DRIP_S = 0.05


@pytest.fixture(autouse=True)
def loopback(settings: Any) -> None:
    settings.HEADROOM_ALERT_NETWORKS = (ip_network("127.0.0.0/8"),)
    settings.HEADROOM_HAS_MAIL = True


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """Deadlines of many dripping bytes. The one of webhooks also holds for receivers that answer, on a busy machine."""
    monkeypatch.setattr(webhook, "TIMEOUT_S", 200 * DRIP_S)
    settings.EMAIL_TIMEOUT = 10 * DRIP_S


def target(url: str) -> AlertTarget:
    return alert_target_create(kind="webhook", address=url, **SAID).row


def queued(row: AlertTarget, **fields: Any) -> AlertDelivery:
    return AlertDelivery.objects.create(
        **{"target": row, "body": body_of([EVENT]), "due_at": NOW, "created": NOW, **fields}
    )


def told(server: Receiver) -> list[int]:
    return [json.loads(data)["id"] for _, _, data in server.got]


@pytest.mark.django_db
@pytest.mark.usefixtures("short")
def test_a_dripping_receiver_delays_nobody_and_is_tried_later() -> None:
    ended: list[int] = []  # exchanges with the dripping one that were over when another target was told
    with ExitStack() as stack:
        slow = stack.enter_context(dripping(HEAD, DRIP_S))
        good = [stack.enter_context(receiving(lambda: ended.append(slow.ended))) for _ in range(3)]
        slow_rows = [queued(target(slow.url)) for _ in range(2)]
        good_rows = [queued(target(server.url)) for server in good]
        assert alerts_send(NOW) == 3
    assert ended == [0, 0, 0]
    for row in slow_rows:
        row.refresh_from_db()
        assert (row.sent_at, row.tries, row.due_at) == (None, 1, NOW + FIRST_WAIT)
        assert row.problem == "127.0.0.1 did not accept it: the exchange was not over after 10 s"
    for row in good_rows:
        row.refresh_from_db()
        assert row.sent_at == NOW


@pytest.mark.django_db
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("text", [GREETING, b""], ids=["greeting", "silence"])
def test_a_dripping_mail_server_is_given_up_too(text: bytes, settings: Any) -> None:
    with dripping(text or b"\0", 1_000 if not text else DRIP_S) as slow, receiving() as good:
        settings.EMAIL_BACKEND, settings.EMAIL_HOST, settings.EMAIL_PORT = (
            "quotas.alerts.mail.TimedBackend",
            "127.0.0.1",
            slow.port,
        )
        mail = queued(alert_target_create(kind="email", address="ops@example.com", **SAID).row)
        queued(target(good.url))
        assert alerts_send(NOW) == 1
    mail.refresh_from_db()
    assert (mail.tries, mail.problem) == (1, "the exchange was not over after 0.5 s")


def test_the_mail_client_is_the_one_with_a_deadline() -> None:
    assert import_string(project.EMAIL_BACKEND) is TimedBackend


@pytest.mark.django_db
def test_the_other_messages_to_an_unreachable_receiver_wait_without_being_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhook, "TIMEOUT_S", 10 * DRIP_S)
    with dripping(HEAD, DRIP_S) as slow:
        row = target(slow.url)
        tried, *others = [queued(row) for _ in range(5)]
        assert alerts_send(NOW) == 0
        assert slow.accepted == 1
    assert set(AlertDelivery.objects.values_list("due_at", flat=True)) == {NOW + FIRST_WAIT}
    assert AlertDelivery.objects.get(tries=1) == tried
    assert AlertDelivery.objects.filter(tries=0).count() == len(others)


@pytest.mark.django_db
@pytest.mark.usefixtures("short")
def test_a_name_that_is_never_found_delays_nobody_and_is_not_reached_afterwards(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """The look-up of a name cannot be ended, so nobody waits for it."""
    found, looked_up = threading.Event(), threading.Event()
    real = socket.getaddrinfo

    def late(host: Any, *arguments: Any, **named: Any) -> Any:
        if host != "stuck.example":
            return real(host, *arguments, **named)
        found.wait(300)
        looked_up.set()
        return real("127.0.0.1", *arguments, **named)

    monkeypatch.setattr(delivery, "TURN_S", 0)
    monkeypatch.setattr(delivery, "GRACE_S", 0)
    with receiving() as never, receiving() as good:
        address = f"http://stuck.example:{never.server_port}/hook"
        stuck = queued(AlertTarget.objects.create(kind="webhook", address=address, secret=sealer().seal(b"x")))
        queued(target(good.url))
        monkeypatch.setattr(socket, "getaddrinfo", late)
        assert alerts_send(NOW) == 1
        stuck.refresh_from_db()
        assert (stuck.tries, stuck.problem) == (1, "the name of the server was not found in time")
        found.set()
        assert looked_up.wait(300)
    assert never.got == []


@pytest.mark.django_db
def test_a_message_that_is_refused_blocks_no_other() -> None:
    with receiving() as server:
        row = target(server.url)
        refused = queued(row)
        server.status = 500
        assert alerts_send(NOW) == 0
        server.status = 204
        later = NOW + FIRST_WAIT
        fresh = queued(row, due_at=later)
        assert alerts_send(later) == 2
    assert told(server) == [refused.pk, fresh.pk, refused.pk]


@pytest.mark.django_db
def test_a_backlog_of_one_target_leaves_the_others_their_turn() -> None:
    with receiving() as busy, receiving() as other:
        row = target(busy.url)
        AlertDelivery.objects.bulk_create(
            [
                AlertDelivery(target=row, body=body_of([EVENT]), due_at=NOW, created=NOW - timedelta(hours=1))
                for _ in range(AT_ONCE + 5)
            ]
        )
        queued(target(other.url))
        assert alerts_send(NOW) == AT_ONCE + 1
        assert (len(busy.got), len(other.got)) == (AT_ONCE, 1)
        assert alerts_send(NOW) == 5
    assert len(set(told(busy))) == AT_ONCE + 5


@pytest.mark.django_db
def test_an_old_message_is_given_up_with_its_next_failure(caplog: pytest.LogCaptureFixture) -> None:
    with receiving() as server:
        server.status = 503
        row = queued(target(server.url), created=NOW - OLDEST)
        alerts_send(NOW)
    row.refresh_from_db()
    assert row.is_given_up
    assert row.tries < MOST_TRIES
    assert f"alert message {row.pk} to target {row.target_id} is given up: 127.0.0.1 answered 503" in caplog.text


@pytest.mark.django_db
def test_the_other_targets_are_told_of_one_that_is_not_reached() -> None:
    AlertSetting.objects.create(name="degraded", threshold=1, is_on=False)
    later = NOW + timedelta(minutes=10)
    with receiving() as server:
        server.status = 503
        row = queued(target(server.url))
        alerts_send(NOW)
        assert alerts_watch(later - timedelta(seconds=1)) == []
        (event,) = alerts_watch(later)
        assert (event.alert, event.about) == ("alert-delivery", f"target {row.target_id}")
        assert event.text == f"alerts have not reached target {row.target_id} (webhook http://127.0.0.1/…) for 600 s"
        server.status = 204
        assert alerts_send(later) == 2
    assert targets_unreached() == []


@pytest.mark.django_db(transaction=True)
def test_the_lock_of_the_watch_is_free_while_messages_are_sent() -> None:
    free: list[bool] = []

    def note() -> None:
        with other_process() as postgres:
            free.append(is_free(postgres, f"hashtext('{Lock.ALERTS.value}')"))

    with receiving(note) as server:
        queued(target(server.url))
        assert alerts_send(NOW) == 1
    assert free == [True]


@pytest.mark.faults_long
@pytest.mark.django_db
def test_f35_at_full_length(figures: Callable[[str], None], settings: Any) -> None:
    """The real deadlines and a byte every 2 s, 49 dripping targets (webhooks and mail) and one that works."""
    settings.EMAIL_BACKEND = "quotas.alerts.mail.TimedBackend"
    ended: list[int] = []
    tries, now = 0, NOW
    with ExitStack() as stack:
        slow = [stack.enter_context(dripping(HEAD, 2)) for _ in range(48)]
        mail = stack.enter_context(dripping(GREETING, 2))
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", mail.port
        good = stack.enter_context(receiving(lambda: ended.append(sum(server.ended for server in slow))))
        for server in slow:
            queued(target(server.url))
        queued(alert_target_create(kind="email", address="ops@example.com", **SAID).row)
        place = target(good.url)
        while AlertDelivery.objects.filter(is_given_up=False).exclude(target=place).exists():
            queued(place, due_at=now)
            assert alerts_send(now) == 1
            tries += 1
            now += timedelta(hours=1)
    assert tries == MOST_TRIES
    # Nobody was given up in a round before the one that works was told. A dripper notices with its next byte.
    assert [count <= 48 * round_ for round_, count in enumerate(ended)] == [True] * tries
    assert len(good.got) == tries
    accepted = sum(server.accepted for server in slow) + mail.accepted
    assert accepted == 49 * MOST_TRIES
    figures(f"{tries} rounds, 49 dripping targets, {accepted} exchanges cut, {len(good.got)} of {tries} told meanwhile")
