"""Alerts fire once, tell who is to be told, are quiet at night, and end by themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from django.core import mail

from headroom_edge import keys
from quotas.alerts.sending import MOST_TRIES, alerts_send
from quotas.alerts.settings import alert_rules, alert_setting_set, alert_target_create
from quotas.alerts.watch import CLEAR, REMIND, alerts_watch
from quotas.errors import Refused
from quotas.models import (
    AdaptiveReading,
    AlertDelivery,
    AlertSetting,
    AlertState,
    AlertTarget,
    CalendarCounter,
    DrainState,
    LimitName,
    Outbox,
)
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.overrides import override_create
from quotas.policies.edit import policy_create
from quotas.status.metrics_collector import adaptive
from quotas.usage.rollups import add_cells
from tenants.models import Tenant
from tests.quotas.pools.test_contention import deny, share_a_pool
from tests.quotas.world import SAID, make_world

pytestmark = pytest.mark.django_db
NOW = datetime(2031, 3, 5, 14, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def world(valkey: redis.Redis, settings: Any) -> None:
    settings.HEADROOM_HAS_MAIL = True
    make_world()
    Outbox.objects.all().delete()
    # A busy machine makes the clients of this very process late for the store.
    AlertSetting.objects.create(name="degraded", threshold=1, is_on=False)


@pytest.fixture
def mailbox() -> AlertTarget:
    return alert_target_create(kind="email", address="ops@example.com", **SAID).row


def drained(ago: timedelta, now: datetime = NOW) -> None:
    DrainState.objects.update_or_create(id=1, defaults={"drained_at": now - ago, "run_id": "x"})


def told(now: datetime) -> list[str]:
    return [f"{event.alert} {event.state}" for event in alerts_watch(now)]


def test_it_fires_once_it_has_held_and_is_resolved_once_it_is_gone() -> None:
    drained(5 * MINUTE)
    assert told(NOW) == []
    assert told(NOW + MINUTE) == ["drain-lag firing"]
    assert told(NOW + 2 * MINUTE) == []
    drained(timedelta(0), NOW + 3 * MINUTE)
    assert told(NOW + 3 * MINUTE) == []
    drained(timedelta(0), NOW + 4 * MINUTE)
    assert told(NOW + 2 * MINUTE + CLEAR) == ["drain-lag resolved"]
    assert AlertState.objects.count() == 1


def test_what_flickers_is_told_once() -> None:
    drained(5 * MINUTE)
    told(NOW)
    assert told(NOW + MINUTE) == ["drain-lag firing"]
    for minute in range(2, 12, 2):
        drained(timedelta(0), NOW + minute * MINUTE)
        assert told(NOW + minute * MINUTE) == []
        drained(5 * MINUTE, NOW + (minute + 1) * MINUTE)
        assert told(NOW + (minute + 1) * MINUTE) == []


def resolved_at(minute: int) -> None:
    """Fires a minute after NOW, and is resolved and told to be at this minute."""
    drained(5 * MINUTE)
    told(NOW)
    assert told(NOW + MINUTE) == ["drain-lag firing"]
    drained(timedelta(0), NOW + minute * MINUTE)
    assert told(NOW + minute * MINUTE) == ["drain-lag resolved"]


def test_what_returns_soon_after_its_end_was_told_is_told_again_if_it_lasts() -> None:
    resolved_at(4)
    drained(15 * MINUTE, NOW + 15 * MINUTE)
    assert [told(NOW + minute * MINUTE) for minute in (6, 7, 10)] == [[], [], []]
    assert told(NOW + 11 * MINUTE) == ["drain-lag firing"]
    assert told(NOW + 12 * MINUTE) == []
    drained(timedelta(0), NOW + 15 * MINUTE)
    assert told(NOW + 15 * MINUTE) == ["drain-lag resolved"]


def test_what_returns_for_a_moment_is_not_told_again_nor_is_its_end() -> None:
    resolved_at(4)
    drained(15 * MINUTE, NOW + 15 * MINUTE)
    assert told(NOW + 6 * MINUTE) == []
    drained(timedelta(0), NOW + 9 * MINUTE)
    assert told(NOW + 9 * MINUTE) == []
    assert AlertState.objects.get().resolved_at == NOW + 9 * MINUTE


def test_an_alert_about_the_platform_ends_none_of_the_others() -> None:
    drained(5 * MINUTE)
    told(NOW)
    assert told(NOW + MINUTE) == ["drain-lag firing"]
    drained(timedelta(0), NOW + 2 * MINUTE)
    requests("acme", "d", 600)
    assert told(NOW + 2 * MINUTE) == []
    assert AlertState.objects.get(name="drain-lag").resolved_at is None


def test_it_reminds_rarely() -> None:
    drained(5 * MINUTE)
    told(NOW)
    assert told(NOW + MINUTE) == ["drain-lag firing"]
    assert told(NOW + REMIND) == []
    assert told(NOW + MINUTE + REMIND) == ["drain-lag reminder"]


def test_an_edit_that_nobody_publishes_is_critical() -> None:
    policy_create(
        name="p", tenant="acme", limits=[{"name": "x", "algorithm": "gcra", "rate": 1, "per": "1s"}], force=True, **SAID
    )
    Outbox.objects.update(created=NOW - MINUTE)
    told(NOW)
    (event,) = alerts_watch(NOW + MINUTE)
    assert (event.alert, event.severity) == ("publish-lag", "critical")
    assert event.runbook == "docs/runbooks/publish-lag.md"


def quota(used: int, tenant: str = "acme") -> None:
    if not LimitName.objects.filter(name="daily").exists():
        limit = {"name": "daily", "algorithm": "calendar_quota", "limit": 1_000, "period": "day"}
        policy_create(name="quota", tenant=tenant, limits=[limit], force=True, **SAID)
        Outbox.objects.all().delete()
    number = Tenant.objects.get(name=tenant).pk
    CalendarCounter.objects.update_or_create(
        shard=keys.shard_of(tenant, 64), tenant_number=number, scope="", subject=b"",
        limit_number=LimitName.objects.get(name="daily").pk,
        defaults={
            "generation": 0, "period_start": NOW.replace(hour=0, minute=0), "used": used,
            "expires_at": NOW + timedelta(days=2), "drained_at": NOW,
        },
    )  # fmt: skip


def test_a_quota_is_told_at_each_of_its_thresholds_and_never_twice() -> None:
    quota(790)
    assert told(NOW) == []
    quota(800)
    assert told(NOW) == ["quota-80 firing"]
    quota(960)
    assert told(NOW + MINUTE) == ["quota-95 firing"]
    quota(1_000)
    assert told(NOW + 2 * MINUTE) == ["quota-100 firing"]
    assert told(NOW + 3 * MINUTE) == []
    assert AlertState.objects.get(resolved_at=None).text == "acme has used 100% of its quota daily (1,000 of 1,000)"


def test_an_override_makes_room() -> None:
    quota(960)
    override_create(tenant="acme", limits={"daily": {"limit": 2_000}}, **SAID)
    Outbox.objects.all().delete()
    assert told(NOW) == []


def requests(tenant: str, outcome: str, count: int) -> None:
    second = int(NOW.timestamp()) - 60
    number = Tenant.objects.get(name=tenant).pk
    add_cells(Cells.of([Cell(second, CellSeries(number, 0, outcome, 0), count, count)]), NOW)


def test_denials_are_told_of_the_tenant_and_of_all_together() -> None:
    requests("acme", "a", 300)
    requests("acme", "d", 300)
    requests("bolt", "a", 100)
    told(NOW)
    events = alerts_watch(NOW + MINUTE)
    assert {(event.about, round(event.value, 2)) for event in events} == {("", 0.43), ("acme", 0.5)}


def test_what_is_denied_on_purpose_alarms_nobody() -> None:
    requests("acme", "p", 1_000)
    requests("bolt", "d", 50)
    told(NOW)
    assert told(NOW + MINUTE) == []


def test_redis_away_is_told_at_once(settings: Any) -> None:
    AlertSetting.objects.all().delete()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    (event,) = alerts_watch(NOW)
    assert event.text == "Redis does not answer"


def test_a_threshold_can_be_moved_and_an_alert_turned_off() -> None:
    drained(5 * MINUTE)
    alert_setting_set(name="drain-lag", threshold=600, **SAID)
    told(NOW)
    assert told(NOW + MINUTE) == []
    alert_setting_set(name="drain-lag", threshold=None, is_on=False, **SAID)
    assert told(NOW + 2 * MINUTE) == []
    alert_setting_set(name="drain-lag", threshold=None, **SAID)
    assert alert_rules()["drain-lag"].is_default


@pytest.mark.parametrize(("name", "threshold"), [("drain-lag", 0), ("quota-80", 1.5), ("nothing", 1)])
def test_what_makes_no_sense_is_refused(name: str, threshold: float) -> None:
    with pytest.raises(Refused):
        alert_setting_set(name=name, threshold=threshold, **SAID)


def test_all_that_happens_at_once_is_one_message(mailbox: AlertTarget) -> None:
    quota(800)
    drained(5 * MINUTE)
    requests("acme", "d", 600)
    told(NOW)
    told(NOW + MINUTE)
    assert alerts_send(NOW + MINUTE) == 2
    assert len(mail.outbox) == 2
    assert "and 2 more" in mail.outbox[1].subject
    assert "docs/runbooks/drain-lag.md" in mail.outbox[1].body


def test_at_night_only_what_is_critical_is_sent_and_the_rest_in_the_morning() -> None:
    alert_target_create(kind="email", address="night@example.com", quiet_from="14:00", quiet_until="16:00", **SAID)
    quota(800)
    policy_create(
        name="p", tenant="bolt", limits=[{"name": "x", "algorithm": "gcra", "rate": 1, "per": "1s"}], force=True, **SAID
    )
    Outbox.objects.update(created=NOW - MINUTE)
    told(NOW)
    told(NOW + MINUTE)
    assert alerts_send(NOW + MINUTE) == 1
    assert "publisher" in mail.outbox[0].subject
    assert alerts_send(NOW.replace(hour=16, minute=1)) == 1
    assert "quota" in mail.outbox[1].subject


def test_a_target_gets_only_what_it_asked_for() -> None:
    alert_target_create(kind="email", address="some@example.com", alerts=["degraded"], **SAID)
    quota(1_000)
    told(NOW)
    assert AlertDelivery.objects.count() == 0


def test_what_is_not_taken_is_tried_again_later_and_later_and_then_given_up(settings: Any) -> None:
    settings.HEADROOM_ALERT_NETWORKS = ()
    target = AlertTarget.objects.create(kind="webhook", address="https://127.0.0.1/hook", secret=b"")
    row = AlertDelivery.objects.create(target=target, body={"events": [], "others": 0}, due_at=NOW, created=NOW)
    now, waits = NOW, []
    for _ in range(MOST_TRIES):
        assert alerts_send(now) == 0
        row.refresh_from_db()
        waits.append(row.due_at - now)
        now = row.due_at
    assert waits[:3] == [timedelta(seconds=15), timedelta(seconds=30), timedelta(minutes=1)]
    assert max(waits) == timedelta(hours=1)
    assert row.is_given_up
    assert alerts_send(now + timedelta(days=1)) == 0


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"kind": "webhook", "address": "https://169.254.169.254/"}, "address"),
        ({"kind": "webhook", "address": "gopher://x"}, "address"),
        ({"kind": "email", "address": "nobody"}, "address"),
        ({"kind": "pigeon", "address": "roof"}, "kind"),
        ({"kind": "email", "address": "a@example.com", "quiet_from": "22:00"}, "missing"),
        ({"kind": "email", "address": "a@example.com", "quiet_from": "22", "quiet_until": "07:00"}, "time"),
        ({"kind": "email", "address": "a@example.com", "alerts": ["none"]}, "unknown"),
        ({"kind": "email", "address": "a@example.com", "timezone": "Mars/Olympus"}, "timezone"),
    ],
)
def test_a_target_that_cannot_be_reached_is_refused(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(Refused) as refused:
        alert_target_create(**fields, **SAID)
    assert refused.value.problems[0].code == code
    assert AlertTarget.objects.count() == 0


def test_without_a_mail_server_no_mail_is_promised(settings: Any) -> None:
    settings.HEADROOM_HAS_MAIL = False
    with pytest.raises(Refused, match="HEADROOM_SMTP_URL"):
        alert_target_create(kind="email", address="a@example.com", **SAID)


def test_a_pool_that_is_full_for_ten_minutes_is_told() -> None:
    share_a_pool()
    Outbox.objects.all().delete()
    for minute in range(2, 11):  # the last one is not judged yet
        deny("limit/pool", NOW - minute * MINUTE)
    assert told(NOW) == []
    deny("limit/share", NOW - 11 * MINUTE)
    assert told(NOW) == ["pool-contended firing"]
    state = AlertState.objects.get(name="pool-contended")
    wanted = "the pool org of pro-all has denied requests for 10 min because members wanted more than it had"
    assert (state.about, state.text) == ("pro-all/org", wanted)
    assert told(NOW + MINUTE) == []
    assert told(NOW + CLEAR) == ["pool-contended resolved"]


def reading(at: datetime, value: int) -> None:
    AdaptiveReading.objects.create(
        at=at,
        kind="rate",
        policy="pro-all",
        limit_name="burst",
        endpoint_number=0,
        tenant_number=0,
        value=value,
        least=300,
        most=1_000,
        reason="30 % of 40 answers per second were bad",
    )


def test_a_limit_that_is_at_its_floor_for_ten_minutes_is_told() -> None:
    reading(NOW - 11 * MINUTE, 420)
    for minute in range(10):
        reading(NOW - minute * MINUTE, 300)
    assert told(NOW) == []
    reading(NOW + MINUTE, 300)
    assert told(NOW + MINUTE) == ["adaptive-at-floor firing"]
    state = AlertState.objects.get(name="adaptive-at-floor")
    assert state.about == "pro-all burst"
    assert state.text == (
        "limit burst on * has been at its floor of 30 % for 10 min: 30 % of 40 answers per second were bad"
    )
    reading(NOW + 2 * MINUTE, 350)
    assert told(NOW + 2 * MINUTE) == []
    assert told(NOW + MINUTE + CLEAR) == ["adaptive-at-floor resolved"]


def test_prometheus_is_told_where_a_limit_that_adapts_is_between_its_bounds() -> None:
    reading(NOW, 475)
    (sample,) = adaptive(NOW).samples
    assert sample.labels == {"policy": "pro-all", "limit": "burst", "endpoint": "*", "tenant": ""}
    assert sample.value == pytest.approx(0.25)
