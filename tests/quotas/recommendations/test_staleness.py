"""A recommendation whose base has changed: it says so at once, cannot be approved, and is measured again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from quotas.changes.undo import revision_revert
from quotas.errors import Refused
from quotas.models import Policy, Recommendation
from quotas.models.recommendation import Stage
from quotas.overrides import override_cancel, override_create
from quotas.policies.edit import limit_remove, limit_set
from quotas.policies.rename import policy_rename
from quotas.recommendations.lifecycle import (
    recommendation_approve,
    recommendation_edit,
    recommendation_simulate,
    recommendations_approve,
)
from quotas.recommendations.remeasurement import recommendation_measure, stale_measure
from quotas.recommendations.settings import calibration_settings_set
from quotas.recommendations.staleness import stale_reason, stale_reasons
from quotas.tenants import NewTenant, tenant_move, tenant_suspend, tenants_create
from tests.quotas.recorded import make_held_too_low
from tests.quotas.world import FORCED, GET, PAY, SAID, newest

pytestmark = pytest.mark.django_db
BOSS: Any = {"author": "boss", "reason": "the forecast is good"}
LIMIT = {"name": "steady", "algorithm": "token_bucket", "rate": 16, "per": "1m", "burst": 15}


@pytest.fixture
def row(db: None) -> Recommendation:
    make_held_too_low(6)
    found = recommendation_simulate(recommendation=Recommendation.objects.get().pk, author="ann")
    assert stale_reason(found) == ""
    return found


def given(tenant: str = "t1", endpoint: str = GET, **more: Any) -> int:
    limits = {"steady": {"rate": 60}}
    return override_create(tenant=tenant, endpoint=endpoint, limits=limits, **{**SAID, **more}).pk


def test_an_override_for_one_of_its_tenants_makes_it_stale_until_the_override_ends(row: Recommendation) -> None:
    number = given()
    assert stale_reason(row).startswith(f"override {number} for t1 by {SAID['author']} (r")
    override_cancel(override=number, **FORCED)
    assert stale_reason(row) == ""


def test_an_override_that_was_in_force_and_ends_by_itself_makes_it_stale(row: Recommendation) -> None:
    number = given(end=timezone.now() + timedelta(hours=1))
    recommendation_measure(recommendation=row.pk, author="ann")
    row.refresh_from_db()
    assert stale_reason(row) == ""
    later = timezone.now() + timedelta(hours=2)
    assert stale_reason(row, later) == f"override {number} that was in force then has ended"


def test_overrides_elsewhere_and_later_ones_do_not_concern_it(row: Recommendation) -> None:
    added = {"steady": {"algorithm": "token_bucket", "rate": 60, "per": "1m", "burst": 9}}
    override_create(tenant="t1", endpoint=PAY, limits=added, **FORCED)
    given(start=timezone.now() + timedelta(days=1))
    assert stale_reason(row) == ""


def test_an_edit_of_its_limit_makes_it_stale(row: Recommendation) -> None:
    limit_set(policy="pro-get", limit=LIMIT, **SAID)
    assert stale_reason(row) == "limit steady of policy pro-get was changed from 12/min burst 15 to 16/min burst 15"


def test_a_limit_that_is_gone_makes_it_stale_and_measuring_ends_it(row: Recommendation) -> None:
    limit_set(policy="pro-get", limit={**LIMIT, "name": "other"}, **SAID)
    limit_remove(policy="pro-get", limit="steady", **FORCED)
    assert stale_reason(row) == "limit steady of policy pro-get no longer exists"
    done = recommendation_measure(recommendation=row.pk, author="ann")
    assert done.stage == Stage.SUPERSEDED
    assert "no longer exists" in done.problem


def test_a_tenant_that_moves_or_is_suspended_makes_it_stale_and_a_new_one_does_not(row: Recommendation) -> None:
    tenants_create(tenants=[NewTenant("fresh", "pro")], **SAID)
    assert stale_reason(row) == ""
    tenant_suspend(name="t3", **SAID)
    assert stale_reason(row) == "tenants have joined or left tier pro"
    recommendation_measure(recommendation=row.pk, author="ann")
    row.refresh_from_db()
    assert stale_reason(row) == ""
    tenant_move(name="t4", tier="free", **FORCED)
    assert stale_reason(row) == "tenants have joined or left tier pro"


def test_other_parameters_of_calibration_make_it_stale(row: Recommendation) -> None:
    calibration_settings_set(values={"margin": 1.5}, **SAID)
    assert stale_reason(row) == "the parameters of calibration were changed"


def test_a_stale_one_is_not_approved_alone_or_in_bulk(row: Recommendation) -> None:
    Recommendation.objects.update(trust="high")
    limit_set(policy="pro-get", limit=LIMIT, **SAID)
    with pytest.raises(Refused) as refused:
        recommendation_approve(recommendation=row.pk, **BOSS)
    assert refused.value.problems[0].code == "stale"
    assert "Measure it again" in str(refused.value)
    done = recommendations_approve(**BOSS)
    assert done.approved == []
    assert "is stale" in done.refused[row.pk]
    row.refresh_from_db()
    assert row.stage == Stage.SIMULATED


def test_measured_again_it_proposes_from_what_holds_now_and_can_be_approved(row: Recommendation) -> None:
    limit_set(policy="pro-get", limit=LIMIT, **SAID)
    done = recommendation_measure(recommendation=row.pk, author="ann")
    assert done.current["parameters"]["rate"] == 16
    assert stale_reason(done) == ""
    assert done.askers == []  # whoever has a stale one measured has not shaped it
    assert recommendation_approve(recommendation=row.pk, **BOSS).stage == Stage.SHADOW


def test_values_that_somebody_edited_stay_and_get_a_new_forecast(row: Recommendation) -> None:
    recommendation_edit(recommendation=row.pk, rate=0.5, burst=40, **SAID)
    limit_set(policy="pro-get", limit=LIMIT, **SAID)
    done = recommendation_measure(recommendation=row.pk, author="ann")
    assert done.proposed is not None
    assert (done.stage, done.proposed["parameters"]["rate"], done.editor) == (Stage.SIMULATED, 30, SAID["author"])
    assert done.current["parameters"]["rate"] == 16
    assert done.forecast["denied_share_now"] > 0


def test_the_job_measures_what_is_stale_and_nothing_else(row: Recommendation) -> None:
    assert stale_measure() == []
    limit_set(policy="pro-get", limit=LIMIT, **SAID)
    assert stale_measure() == [row.pk]
    row.refresh_from_db()
    assert (row.current["parameters"]["rate"], stale_reason(row)) == (16, "")


def test_one_on_which_somebody_has_decided_is_never_stale_and_not_measured(row: Recommendation) -> None:
    recommendation_approve(recommendation=row.pk, **BOSS)
    row.refresh_from_db()
    given()
    assert stale_reason(row) == ""
    with pytest.raises(Refused, match="only one that nobody has decided on"):
        recommendation_measure(recommendation=row.pk, author="ann")


def test_many_are_compared_in_as_many_queries_as_one(row: Recommendation) -> None:
    with CaptureQueriesContext(connection) as one:
        stale_reasons([row])
    columns = ("policy", "limit", "tier", "stage", "endpoint", "current", "proposed", "base")
    same = {column: getattr(row, column) for column in columns}
    others = [Recommendation(pk=number, **same) for number in range(900, 920)]
    with CaptureQueriesContext(connection) as many:
        stale_reasons([row, *others])
    assert len(many) == len(one) == 4


def test_the_rename_of_its_policy_does_not_make_it_stale_nor_does_undoing_and_redoing_that(row: Recommendation) -> None:
    steps: list[Callable[[], object]] = [
        lambda: policy_rename(name=row.policy, to="renamed", **SAID),
        lambda: revision_revert(number=newest().number, **FORCED),
        lambda: revision_revert(number=newest().number, **FORCED),
    ]
    for step in steps:
        step()
        row.refresh_from_db()
        assert Policy.objects.filter(name=row.policy).exists()
        assert stale_reason(row) == ""
