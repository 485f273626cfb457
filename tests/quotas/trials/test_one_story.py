"""A recommendation that is carried out is its change: whatever happens to one is at once what the other shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from quotas.changes.approval import change_approve
from quotas.changes.promotion import change_promote
from quotas.changes.recommended import stage_of
from quotas.changes.rollout import change_drop, change_propose, change_start
from quotas.changes.trial_rule import TrialRule, trial_rule_set
from quotas.changes.undo import revision_revert, revision_rollback
from quotas.errors import Refused
from quotas.models import Change, Limit, Policy, Recommendation, Revision
from quotas.models.change import ChangeState, holding
from quotas.models.recommendation import OPEN, Kind, Stage, Trust
from quotas.policies.edit import limit_set
from quotas.recommendations.lifecycle import (
    recommendation_approve,
    recommendation_dismiss,
    recommendation_enforce,
    recommendation_roll_back,
)
from tests.quotas.world import FORCED, SAID, bucket, limit_of, make_world, newest

Act = Callable[[], object]
POLICIES = ("pro-all", "free-all")


def recommend(policy: str, rate: int) -> Recommendation:
    live = limit_of(policy)
    return Recommendation.objects.create(
        kind=Kind.TIER,
        stage=Stage.SIMULATED,
        trust=Trust.HIGH,
        policy=policy,
        limit="burst",
        tier=policy.removesuffix("-all"),
        endpoint="*",
        current={"algorithm": live.algorithm, "parameters": live.parameters},
        proposed={"algorithm": "token_bucket", "parameters": {"rate": rate, "per": "1s", "burst": 2 * rate}},
        measured_at=timezone.now(),
    )


def recommend_again(policy: str, rate: int) -> object:
    """One is open for a limit, as calibration keeps it; none for a policy that an undo has taken away."""
    is_open = Recommendation.objects.filter(policy=policy, stage__in=OPEN).exists()
    is_there = Limit.objects.filter(policy__name=policy, name__name="burst").exists()
    return recommend(policy, rate) if is_there and not is_open else None


def check_agreement() -> None:
    for row in Recommendation.objects.exclude(change=None).select_related("change"):
        assert row.change is not None
        wanted = stage_of(row.change)
        assert row.stage == wanted or (wanted == Stage.ENFORCED and row.stage == Stage.EVALUATED), (row, row.change)
    assert not Change.objects.exclude(holding()).exclude(staged=None).exists()
    held = {key for row in Change.objects.filter(holding()) for key in row.touched}
    for limit in Limit.objects.exclude(candidate=None).select_related("policy"):
        assert f"policy:{limit.policy.name}" in held, "a candidate that no trial holds"


def nth(rows: Any, place: int) -> Any:
    found = list(rows)
    return found[place % len(found)] if found else None


def on_change(place: int, act: Callable[[Change], object]) -> object:
    row = nth(Change.objects.order_by("pk"), place)
    return act(row) if row else None


def on_recommendation(place: int, act: Callable[[Recommendation], object]) -> object:
    row = nth(Recommendation.objects.order_by("pk"), place)
    return act(row) if row else None


PLACES = st.integers(0, 6)
RATES = st.sampled_from([5, 20, 60, 150, 300])
NAMES = st.sampled_from(POLICIES)
SHARES = st.floats(0, 1)


def undo(service: Callable[..., object], share: float, reopen: bool) -> object:
    number = 1 + int(share * (newest().number - 1))
    return service(number=number, reopen_trials=reopen, **FORCED)


ACTS = st.one_of(
    st.builds(lambda policy, rate: lambda: recommend_again(policy, rate), NAMES, RATES),
    st.builds(
        lambda policy, rate: lambda: change_propose(limit_set, policy=policy, limit=bucket(rate), **SAID), NAMES, RATES
    ),
    st.builds(
        lambda place, mode: (
            lambda: on_change(
                place,
                lambda row: change_start(
                    change=row.pk, mode=mode, share_percent=50 if mode == "canary" else None, **FORCED
                ),
            )
        ),
        PLACES,
        st.sampled_from(["shadow", "canary"]),
    ),
    st.builds(
        lambda place: (
            lambda: on_change(place, lambda row: trial_rule_set(change=row.pk, rule=TrialRule(bar_share=0.02), **SAID))
        ),
        PLACES,
    ),
    st.builds(
        lambda place: (
            lambda: on_change(place, lambda row: change_approve(change=row.pk, approver="boss", reason="fine"))
        ),
        PLACES,
    ),
    st.builds(lambda place: lambda: on_change(place, lambda row: change_promote(change=row.pk, **FORCED)), PLACES),
    st.builds(lambda place: lambda: on_change(place, lambda row: change_drop(change=row.pk, **SAID)), PLACES),
    st.builds(
        lambda place, act: (
            lambda: on_recommendation(place, lambda row: act(recommendation=row.pk, author="boss", reason="because"))
        ),
        PLACES,
        st.sampled_from([recommendation_approve, recommendation_dismiss, recommendation_roll_back]),
    ),
    st.builds(
        lambda place: (
            lambda: on_recommendation(
                place,
                lambda row: recommendation_enforce(
                    recommendation=row.pk, early=True, author="boss", reason="because", force=True
                ),
            )
        ),
        PLACES,
    ),
    st.builds(
        lambda service, share, reopen: lambda: undo(service, share, reopen),
        st.sampled_from([revision_revert, revision_rollback]),
        SHARES,
        st.booleans(),
    ),
    st.builds(lambda policy, rate: lambda: limit_set(policy=policy, limit=bucket(rate), **FORCED), NAMES, RATES),
)


def check_story(acts: list[Act]) -> None:
    make_world()
    for act in acts:
        revisions = Revision.objects.count()
        try:
            act()
        except Refused:
            assert Revision.objects.count() == revisions
        check_agreement()
    # Nothing is held for ever: each trial can be dropped, and each policy edited after that.
    for row in Change.objects.filter(holding()):
        change_drop(change=row.pk, **SAID)
    check_agreement()
    assert not Change.objects.filter(holding()).exists()
    for policy in Policy.objects.filter(name__in=POLICIES):
        limit_set(policy=policy.name, limit=bucket(77), **FORCED)


class TestTheStory(TestCase):
    @settings(max_examples=12, deadline=None)
    @given(acts=st.lists(ACTS, min_size=4, max_size=14))
    def test_the_two_agree_whatever_happens(self, acts: list[Act]) -> None:
        """A few; the sweep below has more."""
        check_story(acts)

    @pytest.mark.sweep
    @settings(max_examples=150, deadline=None)
    @given(acts=st.lists(ACTS, min_size=6, max_size=25))
    def test_the_two_agree_whatever_happens_in_many_stories(self, acts: list[Act]) -> None:
        check_story(acts)


@pytest.mark.usefixtures("world")
class TestOneOfThem:
    def approved(self, rate: int = 150) -> Recommendation:
        row = recommend("pro-all", rate)
        return recommendation_approve(recommendation=row.pk, author="boss", reason="the forecast is good")

    def fresh(self, row: Recommendation) -> Recommendation:
        return Recommendation.objects.get(pk=row.pk)

    def test_dropping_the_change_dismisses_it_at_once_with_the_reason(self) -> None:
        row = self.approved()
        change_drop(change=row.change_id or 0, author="ann", reason="not this week")
        done = self.fresh(row)
        assert (done.stage, done.decider, done.reason) == (Stage.DISMISSED, "ann", "not this week")
        assert done.ended_at is not None

    def test_promoting_the_change_enforces_it_and_reverting_that_rolls_it_back(self) -> None:
        row = self.approved()
        change_promote(change=row.change_id or 0, **SAID)
        assert self.fresh(row).stage == Stage.ENFORCED
        revision_revert(number=newest().number, **FORCED)
        done = self.fresh(row)
        assert done.stage == Stage.ROLLED_BACK
        assert done.change is not None
        assert done.change.state == ChangeState.REVERTED
        assert limit_of("pro-all").parameters["rate"] == 100

    def test_rolling_it_back_reverts_its_change(self) -> None:
        row = self.approved()
        change_promote(change=row.change_id or 0, **SAID)
        recommendation_roll_back(recommendation=row.pk, author="boss", reason="too much")
        change = Change.objects.get(pk=row.change_id or 0)
        assert (change.state, change.revert_revision_id) == (ChangeState.REVERTED, newest().number)

    def test_a_reopened_trial_supersedes_what_was_recommended_since(self) -> None:
        row = self.approved()
        change_drop(change=row.change_id or 0, **SAID)
        later = recommend("pro-all", 200)
        revision_revert(number=newest().number, reopen_trials=True, **SAID)
        assert (self.fresh(row).stage, self.fresh(later).stage) == (Stage.SHADOW, Stage.SUPERSEDED)

    def test_what_the_approver_saw_may_be_cut_and_nothing_more(self) -> None:
        row = self.approved(rate=50)
        assert row.change is not None
        assert row.change.force
        done = recommendation_enforce(recommendation=row.pk, early=True, author="boss", reason="as forecast")
        assert done.stage == Stage.ENFORCED

    def test_a_cut_that_the_approver_did_not_see_is_refused_with_names(self) -> None:
        row = self.approved(rate=50)
        worst = [{"endpoint": "*", "limit": "burst", "percent": 20.0}]
        Change.objects.filter(pk=row.change_id or 0).update(
            impact={**(row.change.impact if row.change else {}), "worst": worst}
        )
        with pytest.raises(Refused, match=r"would now lose 50 % \(tier pro\)"):
            recommendation_enforce(recommendation=row.pk, early=True, author="boss", reason="as forecast")
        assert self.fresh(row).stage == Stage.SHADOW
        assert self.fresh(row).stage in OPEN
