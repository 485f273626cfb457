"""The life of a recommendation: simulated, approved, in shadow, enforced, evaluated; or not."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from quotas.calibration.sizing import point_of
from quotas.changes.promotion import change_promote
from quotas.changes.rollout import change_drop, change_propose, change_start
from quotas.errors import Refused
from quotas.models import Change, Endpoint, LimitName, Override, Recommendation
from quotas.models.recommendation import Kind, Stage, Trust
from quotas.models.usage import UsageMinute
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.policies.edit import limit_set
from quotas.policies.limit_codec import algorithm_load
from quotas.recommendations.calibrate import calibrate
from quotas.recommendations.evaluate import recommendations_advance
from quotas.recommendations.lifecycle import (
    recommendation_approve,
    recommendation_dismiss,
    recommendation_edit,
    recommendation_enforce,
    recommendation_roll_back,
    recommendation_simulate,
    recommendations_approve,
)
from quotas.usage.rollups import add_cells
from tenants.models import Tenant
from tests.quotas.recorded import NOW, make_held_too_low, make_recorded, working
from tests.quotas.world import FORCED, GET, SAID, bucket, limit_of

pytestmark = pytest.mark.django_db
BOSS: Any = {"author": "boss", "reason": "the forecast is good"}
LIVE = {"rate": 12, "per": "1m", "burst": 15}


@pytest.fixture
def row(db: None) -> Recommendation:
    make_held_too_low()
    return recommendation_simulate(recommendation=Recommendation.objects.get().pk, author="ann")


def counted(begin: datetime, allowed: int, denied: int) -> None:
    tenant, endpoint = Tenant.objects.get(name="t0").number, Endpoint.objects.get(name=GET).number
    limit = LimitName.objects.get(name="steady").number
    start = int(begin.timestamp()) // 60 * 60 + 60
    cells = [
        Cell(start, CellSeries(tenant, endpoint, letter, by), count, count)
        for letter, by, count in (("a", 0, allowed), ("d", limit, denied))
        if count
    ]
    add_cells(Cells.of(cells), begin, (UsageMinute,))


def enforced(row: Recommendation) -> Recommendation:
    recommendation_approve(recommendation=row.pk, **BOSS)
    return recommendation_enforce(recommendation=row.pk, early=True, **BOSS)


def refused(act: Any, **arguments: Any) -> str:
    with pytest.raises(Refused) as error:
        act(**arguments)
    return error.value.problems[0].code


def test_the_forecast_tells_what_is_denied_now_and_then_on_weeks_of_its_own(row: Recommendation) -> None:
    assert row.stage == Stage.SIMULATED
    forecast = row.forecast
    assert forecast["denied_share_now"] > 0.2 > forecast["denied_share"]
    assert 0 <= forecast["low"] <= forecast["denied_share"] <= forecast["high"]
    assert forecast["tenants_hit_now"] == 5
    weeks = row.evidence["weeks"]
    assert len(weeks) == 3
    assert all(week["denied_now"] >= week["denied_then"] for week in weeks)


def test_approved_it_stands_in_shadow_beside_the_live_limit(row: Recommendation) -> None:
    done = recommendation_approve(recommendation=row.pk, **BOSS)
    assert (done.stage, done.decider, done.problem) == (Stage.SHADOW, "boss", "")
    assert done.change is not None
    assert (done.change.state, done.change.author) == ("shadow", "calibration")
    live = limit_of("pro-get", "steady")
    assert (live.parameters, live.candidate) == (LIVE, row.proposed)


def test_it_is_not_enforced_before_two_days_unless_somebody_says_so(row: Recommendation) -> None:
    recommendation_approve(recommendation=row.pk, **BOSS)
    assert refused(recommendation_enforce, recommendation=row.pk, **BOSS) == "too_early"
    later = timezone.now() + timedelta(hours=48, minutes=1)
    done = recommendation_enforce(recommendation=row.pk, now=later, **BOSS)
    assert (done.stage, done.enforced_at) == (Stage.ENFORCED, later)
    live = limit_of("pro-get", "steady")
    assert {"algorithm": live.algorithm, "parameters": live.parameters} == row.proposed
    assert (live.candidate, live.adopts_candidate) == (None, True)


def test_as_forecast_it_is_evaluated_after_a_week(row: Recommendation) -> None:
    done = enforced(row)
    assert done.enforced_at is not None
    counted(done.enforced_at, 10_000, 5)
    assert recommendations_advance(done.enforced_at + timedelta(days=6)) == []
    (seen,) = recommendations_advance(done.enforced_at + timedelta(days=7))
    assert (seen.stage, seen.observed["asked"], seen.observed["denied"]) == (Stage.EVALUATED, 10_005, 5)
    assert seen.observed["verdict"] == "as forecast"


def test_far_above_the_forecast_it_is_rolled_back_by_itself_and_not_tried_again(row: Recommendation) -> None:
    Recommendation.objects.update(forecast={"denied_share": 0.001})
    done = enforced(row)
    assert done.enforced_at is not None
    counted(done.enforced_at, 9_000, 1_000)
    later = done.enforced_at + timedelta(hours=2)
    (seen,) = recommendations_advance(later)
    assert recommendations_advance(later) == []
    assert (seen.stage, seen.ended_at, seen.decider) == (Stage.ROLLED_BACK, later, "calibration")
    assert "10.00% were denied, above the bound of 0.30%" in seen.observed["verdict"]
    live = limit_of("pro-get", "steady")
    assert (live.parameters, live.candidate) == (LIVE, None)
    assert Change.objects.get().state == "reverted"


def test_a_handful_of_requests_proves_nothing(row: Recommendation) -> None:
    done = enforced(row)
    assert done.enforced_at is not None
    counted(done.enforced_at, 20, 20)
    recommendations_advance(done.enforced_at + timedelta(hours=2))
    assert Recommendation.objects.get().stage == Stage.ENFORCED


def test_somebody_takes_it_back(row: Recommendation) -> None:
    enforced(row)
    done = recommendation_roll_back(recommendation=row.pk, **BOSS)
    assert done.stage == Stage.ROLLED_BACK
    assert limit_of("pro-get", "steady").parameters == LIVE


def test_it_is_not_taken_back_over_what_others_did_since(row: Recommendation) -> None:
    enforced(row)
    limit_set(policy="pro-get", limit=bucket(50, "steady"), **FORCED)
    assert refused(recommendation_roll_back, recommendation=row.pk, **BOSS) == "touched_since"


def test_dismissed_out_of_shadow_it_leaves_nothing_behind(row: Recommendation) -> None:
    recommendation_approve(recommendation=row.pk, **BOSS)
    done = recommendation_dismiss(recommendation=row.pk, author="ann", reason="not now")
    assert (done.stage, done.reason) == (Stage.DISMISSED, "not now")
    assert limit_of("pro-get", "steady").candidate is None
    assert Change.objects.get().state == "dropped"
    assert refused(recommendation_approve, recommendation=row.pk, **BOSS) == "over"


def test_edited_it_is_simulated_again(row: Recommendation) -> None:
    done = recommendation_edit(recommendation=row.pk, rate=1.0, burst=40, **SAID)
    assert (done.stage, done.is_edited, done.forecast) == (Stage.DRAFT, True, {})
    assert done.proposed == {"algorithm": "token_bucket", "parameters": {"rate": 60, "per": "1m", "burst": 40}}
    assert refused(recommendation_approve, recommendation=row.pk, **BOSS) == "stage"
    calibrate()
    again = recommendation_simulate(recommendation=row.pk, author="ann")
    assert (again.is_edited, again.forecast["denied_share"]) == (True, 0)
    assert refused(recommendation_edit, recommendation=row.pk, rate=0.0, burst=40, **SAID) == "range"


def window_of(algorithm: str, limit: int = 10) -> dict[str, Any]:
    return {"algorithm": algorithm, "parameters": {"limit": limit, "window": "1m"}}


@pytest.mark.parametrize(
    ("current", "rate", "burst", "field", "sentence"),
    [
        (
            None,
            1.234567e-6,
            10,
            "rate",
            "the lowest rate near it that can be counted is 1 per 1d (0.000011574 per second)",
        ),
        (None, 5.0, 10**12, "burst", "burst is at most 4,503,599,627 at this rate; lower it"),
        (None, None, 10, "rate", "rate is missing; give units per second"),
        ("fixed_window", 1e9, 10, "rate", "a limit of 10 per 1m is 0.166666 per second; leave rate out, or change"),
        ("sliding_log", None, 10**12, "burst", "at most 10,000"),
        ("sliding_counter", None, 10**12, "burst", "too large to count exactly"),
    ],
)
def test_an_edit_that_cannot_be_kept_is_refused(
    row: Recommendation, current: str | None, rate: float | None, burst: int, field: str, sentence: str
) -> None:
    if current:
        Recommendation.objects.update(current=window_of(current))
    before = Recommendation.objects.get().proposed
    with pytest.raises(Refused) as refusal:
        recommendation_edit(recommendation=row.pk, rate=rate, burst=burst, **SAID)
    (problem,) = refusal.value.problems
    assert problem.path == field
    assert sentence in problem.message
    assert Recommendation.objects.get().proposed == before


@pytest.mark.parametrize("rate", [0.000011574, 0.0000231481, 0.001, 12.5, 1e9])
def test_a_rate_that_a_refusal_names_is_accepted_and_rounded_up_by_at_most_a_hundredth(
    row: Recommendation, rate: float
) -> None:
    done = recommendation_edit(recommendation=row.pk, rate=rate, burst=10, **SAID)
    assert rate * 0.9999 <= point_of(algorithm_load(done.proposed or {})).rate <= rate * 1.01


@pytest.mark.parametrize("rate", [None, 20 / 60, 0.3333])
def test_a_window_takes_its_limit_alone_or_with_the_rate_that_it_is(row: Recommendation, rate: float | None) -> None:
    Recommendation.objects.update(current=window_of("fixed_window"))
    done = recommendation_edit(recommendation=row.pk, rate=rate, burst=20, **SAID)
    assert done.proposed == window_of("fixed_window", 20)


def test_under_four_eyes_who_edited_it_is_its_author(row: Recommendation, settings: Any) -> None:
    recommendation_edit(recommendation=row.pk, rate=1.0, burst=40, **SAID)
    recommendation_simulate(recommendation=row.pk, author="boss")
    settings.HEADROOM_FOUR_EYES = True
    for name in (SAID["author"], SAID["author"].upper()):
        assert refused(recommendation_approve, recommendation=row.pk, author=name, reason="mine") == "author"
    Recommendation.objects.update(trust=Trust.HIGH)
    bulk = recommendations_approve(**SAID)
    assert (bulk.approved, list(bulk.refused)) == ([], [row.pk])
    assert Recommendation.objects.get().stage == Stage.SIMULATED
    done = recommendation_approve(recommendation=row.pk, **BOSS)
    assert done.change is not None
    assert (done.stage, done.change.author) == (Stage.SHADOW, SAID["author"])
    assert done.change.approvals.get().approver == "boss"


def test_without_four_eyes_who_edited_it_approves_it_too(row: Recommendation) -> None:
    recommendation_edit(recommendation=row.pk, rate=1.0, burst=40, **SAID)
    recommendation_simulate(recommendation=row.pk, author="boss")
    done = recommendation_approve(recommendation=row.pk, **SAID)
    assert (done.stage, done.problem) == (Stage.SHADOW, "")


def test_while_its_policy_is_held_it_waits_and_says_why(row: Recommendation) -> None:
    other = change_propose(limit_set, policy="pro-get", limit=bucket(50, "other"), **SAID)
    change_start(change=other.pk, mode="shadow", **SAID)
    done = recommendation_approve(recommendation=row.pk, **BOSS)
    assert done.stage == Stage.APPROVED
    assert "is on trial" in done.problem
    change_drop(change=other.pk, **SAID)
    recommendations_advance(NOW)
    assert Recommendation.objects.get().stage == Stage.SHADOW


def test_promoted_or_dropped_as_a_change_it_follows(row: Recommendation) -> None:
    done = recommendation_approve(recommendation=row.pk, **BOSS)
    change_promote(change=done.change_id or 0, **FORCED)
    assert Recommendation.objects.get().stage == Stage.ENFORCED


def test_in_bulk_only_high_confidence_is_approved(row: Recommendation) -> None:
    Recommendation.objects.update(trust=Trust.MEDIUM)
    assert recommendations_approve(**BOSS).approved == []
    Recommendation.objects.update(trust=Trust.HIGH)
    assert [one.pk for one in recommendations_approve(**BOSS).approved] == [row.pk]


def test_an_override_that_raises_holds_at_once_and_can_be_taken_back() -> None:
    fleet = {f"t{number}": working(f"t{number}", 0.05) for number in range(21)}
    make_recorded(fleet | {"giant": working("giant", 0.4)}, days=15)
    calibrate()
    found = Recommendation.objects.get()
    assert (found.kind, found.tenant) == (Kind.OVERRIDE, "giant")
    recommendation_simulate(recommendation=found.pk, author="ann")
    done = recommendation_approve(recommendation=found.pk, **BOSS)
    assert (done.stage, done.problem) == (Stage.ENFORCED, "")
    override = Override.objects.get()
    assert override.tenant.name == "giant"
    assert found.proposed is not None
    assert override.limits == {"steady": {"algorithm": "token_bucket", **found.proposed["parameters"]}}
    recommendation_roll_back(recommendation=found.pk, **BOSS)
    assert Override.objects.get().cancelled_at is not None
