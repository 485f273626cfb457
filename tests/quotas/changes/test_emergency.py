"""Emergencies belong to approvers and owners, alert, and stay until somebody else has looked at them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from django.core.management import call_command
from django.utils import timezone

from quotas.alerts import findings
from quotas.alerts.settings import alert_rules, alert_setting_set, alert_target_delete
from quotas.alerts.watch import alerts_watch
from quotas.bypass import bypass_plan, bypass_set
from quotas.changes.emergency import declare, emergencies_open, emergency_review
from quotas.changes.freeze import freeze_set
from quotas.changes.rollout import change_propose, change_start
from quotas.errors import Refused
from quotas.models import AlertState, AlertTarget, AuditEvent, Emergency
from quotas.own_limits import own_limits_install
from quotas.policies.edit import limit_set
from quotas.what_if import whatif
from tenants.identity import acting_as
from tenants.scope import Principal
from tests.access.people import person
from tests.quotas.principals import account, machine
from tests.quotas.world import FORCED, SAID, bucket, limit_of

pytestmark = pytest.mark.usefixtures("world", "four_eyes")


@pytest.fixture
def four_eyes(world: None, settings: Any) -> None:
    settings.HEADROOM_FOUR_EYES = True


def cut_at_once(who: Principal) -> Emergency:
    with acting_as(who):
        arguments: dict[str, Any] = {"policy": "pro-all", "limit": bucket(50), "force": True, "emergency": True}
        limit_set(author=who.actor, reason="it burns", **arguments)
    return Emergency.objects.get()


def review(row: Emergency, who: Principal) -> Emergency:
    with acting_as(who):
        return emergency_review(emergency=row.pk, author=who.actor, reason="I saw")


@pytest.mark.parametrize("who", ["operator", "a token without the scope approve"])
def test_it_belongs_to_approvers_and_owners(who: str) -> None:
    person("ann", "approver")
    caller = account("otto", "operator") if who == "operator" else machine(author="ann", scopes=["write"])
    with pytest.raises(Refused, match="belongs to approvers and owners"):
        cut_at_once(caller)
    with acting_as(caller), pytest.raises(Refused, match="a bypass of everything belongs to approvers and owners"):
        bypass_plan(scope="all", name="", duration="1m", **SAID)
    change = change_propose(limit_set, policy="pro-all", limit=bucket(50), **SAID).pk
    soon = timezone.now() + timedelta(hours=1)
    with acting_as(caller), pytest.raises(Refused, match="belongs to approvers and owners"):
        change_start(change=change, mode="scheduled", at=soon, emergency=True, **FORCED)
    assert (limit_of("pro-all").parameters["rate"], Emergency.objects.count()) == (100, 0)


def test_it_stays_until_somebody_else_has_looked() -> None:
    ann = account("ann")
    row = cut_at_once(ann)
    assert (row.author, row.author_identity, row.action) == ("ann", ann.identity, "limit_set")
    for own in (ann, machine(author="ann", may_approve=True)):
        with pytest.raises(Refused, match="somebody else has to look at it"):
            review(row, own)
    with pytest.raises(Refused, match="is a machine"):
        review(row, machine(author=account("bob").actor))
    assert emergencies_open().get() == row
    seen = review(row, account("bob"))
    assert (seen.reviewer, seen.review_reason, emergencies_open().count()) == ("bob", "I saw", 0)
    detail = AuditEvent.objects.get(kind="emergency_reviewed").detail
    assert (detail["emergency"], detail["author"]) == (row.pk, "bob")
    with pytest.raises(Refused, match="bob has already looked at"):
        review(row, account("carol"))


def test_it_alerts_until_then() -> None:
    row, now = cut_at_once(account("ann")), timezone.now()
    (event,) = (event for event in alerts_watch(now) if event.alert == "emergency")
    assert (event.alert, event.about, event.severity) == ("emergency", str(row), "critical")
    assert event.text.startswith(f"ann declared {row}, and nobody else has looked at it: revision")
    review(row, account("bob"))
    later = alerts_watch(now + timedelta(minutes=3))
    assert [event.state for event in later if event.alert == "emergency"] == ["resolved"]


def emergency_events(now: datetime) -> list[tuple[str, str]]:
    return [(event.about, event.state) for event in alerts_watch(now) if event.alert == "emergency"]


def declare_some(number: int) -> list[str]:
    return [str(declare(action="limit_set", author="ann", reason="it burns", what="a limit")) for _ in range(number)]


def test_however_many_there_are_none_is_called_over_before_somebody_has_looked() -> None:
    now = timezone.now()
    first, more = declare_some(1), declare_some(25)
    assert emergency_events(now) == [(name, "firing") for name in [*first, *more]]
    declare_some(25)
    for minutes in (1, 3, 5):
        states = {state for _, state in emergency_events(now + timedelta(minutes=minutes))}
        assert states <= {"firing"}


def test_beyond_a_bound_the_newest_share_one_alert(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "MOST_EMERGENCIES", 2)
    now = timezone.now()
    told = declare_some(2)
    assert emergency_events(now) == [(name, "firing") for name in told]
    declare_some(3)
    assert emergency_events(now + timedelta(minutes=3)) == [("the newest", "firing")]
    assert AlertState.objects.get(about="the newest").text == (
        "3 more emergencies have been looked at by nobody but their authors"
    )


@pytest.mark.parametrize("change", [{"threshold": None, "is_on": False}, {"threshold": 5}])
def test_an_operator_cannot_silence_its_alert(change: dict[str, Any]) -> None:
    with acting_as(account("otto", "operator")), pytest.raises(Refused, match="belongs to approvers and owners"):
        alert_setting_set(name="emergency", **change, **SAID)
    assert alert_rules()["emergency"].is_default
    with acting_as(account("ann", "approver")):
        assert not alert_setting_set(name="emergency", **change, **SAID).is_default
    with acting_as(account("otto", "operator")):
        assert alert_setting_set(name="emergency", threshold=None, **SAID).is_default


def test_an_operator_cannot_delete_who_is_told_of_it_before_somebody_else_has_looked() -> None:
    address = "https://hooks.example.com/x"
    told = AlertTarget.objects.create(kind="webhook", address=address)
    other = AlertTarget.objects.create(kind="webhook", address=address, alerts=["publish-lag"])
    row = cut_at_once(account("ann"))
    alerts_watch(timezone.now())
    assert told.deliveries.exists()
    sentence = "before somebody else has looked at emergency .* belongs to approvers and owners"
    with acting_as(account("otto", "operator")):
        with pytest.raises(Refused, match=sentence):
            alert_target_delete(target=told.pk, **SAID)
        alert_target_delete(target=other.pk, **SAID)
    assert list(AlertTarget.objects.all()) == [told]
    assert told.deliveries.exists()
    review(row, account("bob"))
    with acting_as(account("otto", "operator")):
        alert_target_delete(target=told.pk, **SAID)
    assert not AlertTarget.objects.exists()


def test_an_approver_may_delete_who_is_told_of_it() -> None:
    told = AlertTarget.objects.create(kind="webhook", address="https://hooks.example.com/x")
    cut_at_once(account("ann"))
    with acting_as(account("bob")):
        alert_target_delete(target=told.pk, **SAID)
    assert not AlertTarget.objects.exists()


def test_a_bypass_of_everything_is_one_even_where_two_eyes_are_enough(settings: Any, valkey: redis.Redis) -> None:
    settings.HEADROOM_FOUR_EYES = False
    bypass_set(scope="tenant", name="acme", duration="1m", **SAID)
    assert not emergencies_open().exists()
    bypass_set(scope="all", name="", duration="1m", **SAID)
    assert emergencies_open().get().what == "bypass of all limits"


def test_a_bypass_by_the_command_is_one_too(valkey: redis.Redis) -> None:
    call_command("bypass", "--all", "--reason", "it burns", "--for", "1m")
    assert emergencies_open().get().reason == "it burns"
    assert AuditEvent.objects.filter(kind="bypass_set").exists()


def test_taking_back_a_recommendation_is_none() -> None:
    limit_set(policy="pro-all", limit=bucket(50), by_design=True, **FORCED)
    assert not Emergency.objects.exists()
    assert AuditEvent.objects.filter(kind="approval_skipped").exists()


def test_setting_up_and_trying_out_are_none() -> None:
    own_limits_install("headroom")
    freeze_set(end=timezone.now() + timedelta(hours=1), **SAID)
    with acting_as(account("otto", "operator")):
        whatif("tiers: [{name: gold}]", days=1, author="otto")
    assert not Emergency.objects.exists()
