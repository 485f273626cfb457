"""The verdict in one sentence, and the job that ends trials by it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from quotas.alerts.findings import findings
from quotas.alerts.settings import alert_rules
from quotas.changes.approval import change_approve
from quotas.changes.freeze import freeze_set
from quotas.changes.rollout import change_propose, change_start
from quotas.changes.trial_rule import TrialRule, trial_rule_set
from quotas.errors import Refused
from quotas.models import AuditEvent, Change, FoldState
from quotas.models.change import ChangeState, TrialEnd
from quotas.policies.edit import limit_set
from quotas.tenants import NewTenant, tenants_create
from quotas.trials.report import trial_of
from quotas.trials.watch import trials_watch
from tests.quotas.trials.traffic import counted
from tests.quotas.world import FORCED, SAID, bucket, limit_of

pytestmark = pytest.mark.usefixtures("world")


@pytest.fixture
def start() -> datetime:
    return timezone.now().replace(second=0, microsecond=0)


def folded(until: datetime) -> None:
    for name in ("minutes", "hours"):
        FoldState.objects.update_or_create(name=name, defaults={"until": until})


def shadow(rate: int = 50, **rule: Any) -> Change:
    number = change_propose(limit_set, policy="pro-all", limit=bucket(rate), **SAID).pk
    return change_start(change=number, mode="shadow", rule=TrialRule(**rule), **SAID)


def verdict(row: Change, at: datetime) -> tuple[str, str]:
    folded(at)
    found = trial_of(Change.objects.get(pk=row.pk), at).verdict
    assert found is not None
    return found.code, str(found)


def test_below_both_bars_for_a_day_it_is_safe(start: datetime) -> None:
    tenants_create(tenants=[NewTenant("calm", "pro")], **SAID)
    row = shadow()
    counted(start + timedelta(hours=1), "acme", allowed=8_000, would=24)
    counted(start + timedelta(hours=2), "calm", allowed=2_000)
    code, said = verdict(row, start + timedelta(hours=26))
    assert code == "safe"
    assert said == (
        "Safe to promote: 1 of 2 tenants would see 429s. 24 of 10,000 requests, 0.24 %, below your bar of 1 %. "
        "26 of 48 hours are in."
    )


def test_it_is_too_early_before_a_day_and_unknown_without_traffic(start: datetime) -> None:
    row = shadow()
    assert verdict(row, start + timedelta(hours=2))[0] == "no_traffic"
    counted(start + timedelta(hours=1), "acme", allowed=50)
    assert verdict(row, start + timedelta(hours=2))[0] == "no_traffic"
    counted(start + timedelta(hours=1), "acme", allowed=500)
    code, said = verdict(row, start + timedelta(hours=2))
    assert code == "early"
    assert "Going well, but too early" in said


def test_a_trial_that_is_planned_to_be_short_is_long_enough_at_its_end(start: datetime) -> None:
    row = shadow(ends=start + timedelta(hours=2, minutes=1))
    counted(start + timedelta(minutes=5), "acme", allowed=500)
    assert verdict(row, start + timedelta(hours=1))[0] == "early"
    assert verdict(row, start + timedelta(hours=2, minutes=2))[0] == "safe"


def test_above_a_bar_it_is_not_safe_at_once(start: datetime) -> None:
    tenants_create(tenants=[NewTenant("small", "pro")], **SAID)
    row = shadow(bar_share=0.05, bar_tenant=0.2)
    counted(start + timedelta(minutes=2), "acme", allowed=10_000, would=100)
    counted(start + timedelta(minutes=2), "small", allowed=100, would=30)
    code, said = verdict(row, start + timedelta(minutes=30))
    assert code == "above_tenant"
    assert "small would be denied 30 of 100 requests, 30 %, above your bar of 20 % for one tenant" in said
    trial_rule_set(change=row.pk, rule=TrialRule(bar_share=0.01), **SAID)
    assert verdict(row, start + timedelta(minutes=30))[0] == "above_share"


def test_a_later_end_keeps_the_counts_and_is_recorded(start: datetime) -> None:
    row = shadow()
    counted(start + timedelta(hours=1), "acme", allowed=500, would=1)
    before = trial_of(row, start + timedelta(hours=2)).counts
    ends = start + timedelta(days=5)
    done = trial_rule_set(change=row.pk, rule=TrialRule(ends=ends, then="end"), **SAID)
    assert (done.trial_ends, done.trial_then) == (ends, TrialEnd.END)
    after = trial_of(done, start + timedelta(hours=2)).counts
    assert before is not None
    assert after is not None
    assert before.total == after.total
    detail = AuditEvent.objects.get(kind="trial_rule_set").detail
    assert (detail["change"], detail["author"], detail["then"]) == (row.pk, "ann", "end")


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        (TrialRule(bar_share=0), "bar_share"),
        (TrialRule(bar_tenant=1.5), "bar_tenant"),
        (TrialRule(ends=datetime.fromisoformat("2020-01-01T00:00:00Z")), "ends"),
        (TrialRule(then="hope"), "then"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(rule: TrialRule, path: str) -> None:
    row = shadow()
    with pytest.raises(Refused) as refused:
        trial_rule_set(change=row.pk, rule=rule, **SAID)
    assert refused.value.problems[0].path == path


class TestTheJob:
    def watched(self, at: datetime) -> list[str]:
        folded(at)
        return [event.what for event in trials_watch(at)]

    def test_an_hour_above_a_bar_stops_the_trial_and_tells_it(self, start: datetime) -> None:
        row = shadow()
        counted(start + timedelta(minutes=10), "acme", allowed=5_000, would=400)
        at = start + timedelta(minutes=20)
        assert self.watched(at) == ["stopped"]
        done = Change.objects.get(pk=row.pk)
        assert (done.state, done.end_author) == (ChangeState.DROPPED, "trials")
        assert "400 of 5,000 requests (8 %) would be denied" in done.end_reason
        assert limit_of("pro-all").candidate is None
        assert AuditEvent.objects.get(kind="trial_stopped").detail["change"] == row.pk
        (told,) = [one for one in findings(timezone.now(), list(alert_rules().values())) if one.name == "trial-stopped"]
        assert f"change {row.pk}" in told.text
        assert self.watched(at) == []

    def test_what_lies_more_than_an_hour_back_does_not_stop_it(self, start: datetime) -> None:
        shadow()
        counted(start + timedelta(minutes=10), "acme", allowed=5_000, would=400)
        counted(start + timedelta(hours=3), "acme", allowed=5_000)
        assert self.watched(start + timedelta(hours=3, minutes=5)) == []

    def test_switched_off_it_stops_nothing_and_below_a_hundred_requests_neither(self, start: datetime) -> None:
        row = shadow(auto_stop=False)
        counted(start + timedelta(minutes=10), "acme", allowed=5_000, would=400)
        assert self.watched(start + timedelta(minutes=20)) == []
        trial_rule_set(change=row.pk, rule=TrialRule(auto_stop=True), **SAID)
        assert self.watched(start + timedelta(minutes=20)) == ["stopped"]

    @pytest.mark.parametrize(
        ("then", "state"),
        [("ask", ChangeState.SHADOW), ("end", ChangeState.DROPPED), ("promote", ChangeState.PROMOTED)],
    )
    def test_at_the_planned_end_it_does_what_the_rule_says(self, start: datetime, then: str, state: str) -> None:
        row = shadow(rate=150, then=then, ends=start + timedelta(hours=2))
        counted(start + timedelta(minutes=10), "acme", allowed=5_000)
        assert self.watched(start + timedelta(hours=1)) == []
        self.watched(start + timedelta(hours=2, minutes=1))
        assert Change.objects.get(pk=row.pk).state == state

    def test_it_is_not_promoted_above_a_bar_unapproved_with_cuts_or_while_frozen(
        self, start: datetime, settings: Any
    ) -> None:
        end = start + timedelta(hours=2)
        row = shadow(rate=50, then="promote", ends=end)  # a cut that nobody accepted
        counted(start + timedelta(minutes=10), "acme", allowed=5_000)
        after = end + timedelta(minutes=1)
        assert self.watched(after) == ["refused"]
        kept = Change.objects.get(pk=row.pk)
        assert kept.state == ChangeState.SHADOW
        assert "not promoted at the end of its trial" in kept.problem
        assert "a cut of 50 %" in kept.problem
        assert self.watched(after) == []  # told once

    def test_under_four_eyes_it_is_promoted_only_if_approved(self, start: datetime, settings: Any) -> None:
        settings.HEADROOM_FOUR_EYES = True
        row = shadow(rate=150, then="promote", ends=start + timedelta(hours=2))
        counted(start + timedelta(minutes=10), "acme", allowed=5_000)
        after = start + timedelta(hours=2, minutes=1)
        assert self.watched(after) == ["refused"]
        assert "waits for an approver" in Change.objects.get(pk=row.pk).problem
        change_approve(change=row.pk, approver="boss", reason="looks good")
        assert self.watched(after) == ["promoted"]

    def test_while_changes_are_frozen_it_waits(self, start: datetime) -> None:
        row = shadow(rate=150, then="promote", ends=start + timedelta(hours=2))
        counted(start + timedelta(minutes=10), "acme", allowed=5_000)
        after = start + timedelta(hours=2, minutes=1)
        freeze_set(end=after + timedelta(hours=9), author="olga", reason="the holidays")
        assert self.watched(after) == []
        assert Change.objects.get(pk=row.pk).state == ChangeState.SHADOW


class TestACanary:
    def tried(self, start: datetime) -> tuple[Change, list[str], list[str]]:
        names = [f"t-{number}" for number in range(30)]
        tenants_create(tenants=[NewTenant(name, "pro") for name in names], **SAID)
        number = change_propose(limit_set, policy="pro-all", limit=bucket(50), **SAID).pk
        row = change_start(change=number, mode="canary", share_percent=50, **FORCED)
        found = trial_of(row, start + timedelta(minutes=2)).canary
        assert found is not None
        chosen = [one.tenant for one in found.tenants]
        return row, chosen, [name for name in ("acme", *names) if name not in chosen]

    def test_its_tenants_are_counted_beside_the_rest_before_and_now(self, start: datetime) -> None:
        row, chosen, rest = self.tried(start)
        before, now = start - timedelta(minutes=30), start + timedelta(minutes=30)
        counted(before, chosen[0], allowed=990, denied=10)
        counted(now, chosen[0], allowed=900, denied=100)
        counted(before, rest[0], allowed=1_980, denied=20)
        counted(now, rest[0], allowed=1_980, denied=20)
        folded(start + timedelta(hours=1))
        trial = trial_of(row, start + timedelta(hours=1))
        counts = trial.canary
        assert counts is not None
        assert (counts.canary.tenants, counts.rest.tenants) == (len(chosen), len(rest))
        assert (counts.canary.before.denied, counts.canary.now.denied) == (10, 100)
        assert (counts.rest.before.asked, counts.rest.now.asked) == (2_000, 2_000)
        assert counts.due_to_change == pytest.approx(0.09)
        assert trial.verdict is not None
        assert trial.verdict.code == "above_share"
        assert [event.what for event in trials_watch(start + timedelta(hours=1))] == ["stopped"]
        assert Change.objects.get(pk=row.pk).state == ChangeState.DROPPED

    def test_what_rose_for_everybody_is_not_due_to_the_change(self, start: datetime) -> None:
        row, chosen, rest = self.tried(start)
        for name in (chosen[0], rest[0]):
            counted(start - timedelta(minutes=30), name, allowed=1_000)
            counted(start + timedelta(minutes=30), name, allowed=800, denied=200)
        folded(start + timedelta(hours=1))
        found = trial_of(row, start + timedelta(hours=1)).canary
        assert found is not None
        assert found.due_to_change == pytest.approx(0)
