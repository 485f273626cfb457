"""Under four eyes, whoever shaped a calibration does not approve what it proposes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from quotas.errors import Refused
from quotas.models import CalibrationSetting, Recommendation
from quotas.models.recommendation import Kind, Stage
from quotas.recommendations.calibrate import AUTHOR
from quotas.recommendations.lifecycle import (
    recommendation_approve,
    recommendation_edit,
    recommendation_enforce,
    recommendation_simulate,
)
from quotas.recommendations.runs import calibration_now
from quotas.recommendations.settings import calibration_chosen, calibration_settings_set
from tenants.identity import Actor, acting_as
from tenants.scope import Principal
from tests.quotas.principals import account, machine
from tests.quotas.recorded import make_recorded, working
from tests.quotas.world import limit_of

pytestmark = pytest.mark.django_db
# Every one of them favours a cut, at once and without much data.
EXTREME = {
    "margin": 1,
    "burst_margin": 1,
    "rate_quantile": 0.9,
    "step_down": 2,
    "least_days": 0.01,
    "down_days": 0.01,
    "down_below": 1,
    "shadow_hours": 0.0001,
}
LIVE = {"rate": 12, "per": "1m", "burst": 15}


@pytest.fixture
def recorded(db: None, settings: Any) -> None:
    """Five tenants that need a tenth of what their tier has."""
    make_recorded({f"t{number}": working(f"t{number}", 0.02, hours=2) for number in range(5)}, days=15)
    settings.HEADROOM_FOUR_EYES = True


def choose(who: Principal, values: Mapping[str, float | None]) -> None:
    with acting_as(who):
        calibration_settings_set(values=values, author=who.actor, reason="to see more")


def run_by(who: Principal | None) -> Recommendation:
    """By the job, if it is nobody."""
    if who is None:
        calibration_now(author=AUTHOR)
    else:
        with acting_as(who):
            calibration_now(author=who.actor)
    return Recommendation.objects.get(kind=Kind.TIER)


def approve(row: Recommendation, who: Principal) -> Recommendation:
    with acting_as(who):
        return recommendation_approve(recommendation=row.pk, author=who.actor, reason="it fits")


def refusal(row: Recommendation, who: Principal) -> str:
    with pytest.raises(Refused) as refused:
        approve(row, who)
    assert Recommendation.objects.get(pk=row.pk).stage == Stage.SIMULATED
    return str(refused.value)


@pytest.mark.usefixtures("recorded")
def test_one_approver_does_not_enforce_a_cut_by_choosing_the_parameters() -> None:
    ann, bob = account("ann"), account("bob")
    choose(ann, EXTREME)
    row = run_by(ann)
    assert "ann chose parameters of its calibration, or asked for it; somebody else has to" in refusal(row, ann)
    token = machine(author="ann", may_approve=True)
    assert "counts as ann, who chose parameters" in refusal(row, token)
    assert limit_of("pro-get", "steady").candidate is None
    done = approve(row, bob)
    assert done.change is not None
    assert (done.stage, done.change.author, done.change.author_identity) == (Stage.SHADOW, "ann", ann.identity)
    with acting_as(bob):  # the second person; ending the shadow early is theirs to judge
        recommendation_enforce(recommendation=row.pk, early=True, author="bob", reason="I saw it")
    assert limit_of("pro-get", "steady").parameters != LIVE


@pytest.mark.usefixtures("recorded")
def test_whoever_chose_any_value_is_an_asker_whoever_runs_it_and_whatever_is_chosen_later() -> None:
    ann, bob, carol = account("ann"), account("bob"), account("carol")
    choose(ann, EXTREME)
    choose(bob, {**EXTREME, "unrest": 2})  # as a client does that sends all of them
    row = run_by(None)
    assert [one["author"] for one in row.askers] == ["ann", "bob"]
    choose(ann, dict.fromkeys(EXTREME))
    for who in (ann, bob):
        assert "chose parameters" in refusal(row, who)
    assert "the parameters of calibration were changed" in refusal(row, carol)
    choose(ann, EXTREME)
    choose(bob, {"unrest": 2})
    assert approve(row, carol).stage == Stage.SHADOW


@pytest.mark.usefixtures("recorded")
def test_a_later_run_with_other_parameters_has_other_askers() -> None:
    ann, bob = account("ann"), account("bob")
    choose(ann, EXTREME)
    assert [one["author"] for one in run_by(None).askers] == ["ann"]
    choose(ann, dict.fromkeys(EXTREME))
    choose(bob, EXTREME)
    row = run_by(None)
    assert [one["author"] for one in row.askers] == ["bob"]
    assert approve(row, ann).stage == Stage.SHADOW


@pytest.mark.usefixtures("recorded")
def test_whoever_asked_for_the_run_does_not_approve_it_and_the_jobs_needs_one_approver() -> None:
    ann, bob = account("ann"), account("bob")
    choose(bob, EXTREME)
    CalibrationSetting.objects.update(author="", author_identity="")  # nobody's
    row = run_by(ann)
    assert row.askers == [{"author": "ann", "identity": ann.identity}]
    assert "asked for it" in refusal(row, ann)
    row = run_by(None)
    assert row.askers == []
    done = approve(row, ann)
    assert done.change is not None
    assert (done.stage, done.change.author) == (Stage.SHADOW, AUTHOR)


@pytest.mark.usefixtures("recorded")
def test_whoever_edits_it_takes_the_place_of_those_who_shaped_it() -> None:
    ann, bob = account("ann"), account("bob")
    choose(ann, EXTREME)
    row = run_by(ann)
    with acting_as(bob):
        recommendation_edit(recommendation=row.pk, rate=0.15, burst=12, author="bob", reason="less of a cut")
        recommendation_simulate(recommendation=row.pk, author="bob")
    assert "bob is the author" in refusal(row, bob)
    assert approve(row, ann).stage == Stage.SHADOW


@pytest.mark.usefixtures("recorded")
def test_with_two_eyes_whoever_shaped_it_approves_it(settings: Any) -> None:
    settings.HEADROOM_FOUR_EYES = False
    ann = account("ann")
    choose(ann, EXTREME)
    done = approve(run_by(ann), ann)
    assert (done.stage, done.problem) == (Stage.SHADOW, "")


def test_a_value_is_of_whoever_chose_it_last_and_a_default_is_nobodys() -> None:
    ann, bob = account("ann"), account("bob")
    choose(ann, {"margin": 1.3, "unrest": 2})
    choose(bob, {"margin": 1.3, "unrest": 3})
    assert calibration_chosen().authors == (Actor("ann", ann.identity), Actor("bob", bob.identity))
    choose(bob, {"margin": None})
    assert calibration_chosen().authors == (Actor("bob", bob.identity),)
