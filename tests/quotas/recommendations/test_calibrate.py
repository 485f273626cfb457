"""What the nightly calibration proposes, and what it leaves alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from headroom_edge.algorithms import TokenBucket
from headroom_edge.algorithms.base import SECOND_US
from quotas.calibration.capacity import Sample
from quotas.calibration.sizing import point_of
from quotas.models import Recommendation
from quotas.models.recommendation import Kind, Stage, Trust
from quotas.observations.arrays import Floats
from quotas.policies.edit import policy_create
from quotas.policies.limit_codec import algorithm_load
from quotas.recommendations.calibrate import calibrate
from quotas.recommendations.lifecycle import recommendation_dismiss, recommendation_simulate
from quotas.simulation.synthetic_tenants import SyntheticTenant, Throttle
from tenants.models import Tenant
from tests.quotas.recorded import NOW, make_giant, make_recorded, working
from tests.quotas.world import FORCED, SAID

pytestmark = pytest.mark.django_db
DAY_S = 86_400


def fleet(rate: float, count: int = 6) -> dict[str, SyntheticTenant]:
    return {f"t{number}": working(f"t{number}", rate) for number in range(count)}


def a_minute(stored: dict[str, Any]) -> float:
    return 60 * point_of(algorithm_load(stored)).rate


def _since(days: float, before: float, after: float) -> SyntheticTenant:
    """Two hours a day at one rate, and for the last days at another."""
    turn = NOW.timestamp() - days * DAY_S

    def intensity(seconds: Floats) -> Floats:
        found: Floats = np.where(seconds % DAY_S < 7_200, np.where(seconds < turn, before, after), 0.0)
        return found

    return SyntheticTenant("changed", "changed", intensity)


def test_a_tier_that_is_held_too_low_is_raised_by_one_step_with_its_evidence() -> None:
    make_recorded(fleet(0.5))
    assert calibrate().proposed
    row = Recommendation.objects.get(kind=Kind.TIER)
    assert (row.policy, row.limit, row.tier, row.stage) == ("pro-get", "steady", "pro", Stage.SIMULATED)
    assert row.proposed == {"algorithm": "token_bucket", "parameters": {"rate": 24, "per": "1m", "burst": 15}}
    assert row.summary.startswith("Raise steady of pro-get: 12/min sustained")
    assert (row.trust, row.binds) == (Trust.HIGH, "demand")
    evidence = row.evidence
    assert evidence["wanted"]["rate"] > 0.5
    assert not evidence["is_whole"]
    assert (evidence["votes"], evidence["affected_count"], evidence["overrides"]) == (6, 6, [])
    assert 27.9 < evidence["days"] <= 28
    assert evidence["percentiles"]["0.5"] < evidence["percentiles"]["0.98"] <= evidence["percentiles"]["1.0"]
    assert sum(bar["minutes"] for bar in evidence["histogram"]) > 6 * 27 * 240
    bursts = [point["burst"] for point in evidence["curve"]]
    assert bursts == sorted(bursts, reverse=True)
    assert evidence["advice"]["algorithm"] == "token_bucket"


def test_where_the_backend_cannot_bear_it_capacity_binds_and_the_raise_is_cut() -> None:
    make_recorded(fleet(0.5))
    loads = [number / 20 for number in range(1, 81) for _ in range(4)]
    bent = [Sample(load, 20.0 if load < 2 else 20 + 400 * (load - 2) ** 2) for load in loads]
    calibrate(latency=lambda *_: bent)
    row = Recommendation.objects.get()
    assert (row.binds, row.evidence["capacity"]["method"]) == ("capacity", "kneedle")
    capacity = row.evidence["capacity"]
    assert capacity["may_ask"] > capacity["usable"]
    assert row.proposed is not None
    assert 12 <= a_minute(row.proposed) < 24


def test_a_limit_that_fits_is_left_alone() -> None:
    make_recorded(fleet(0.05))
    found = calibrate()
    assert (found.fitting, found.proposed) == (1, [])
    assert Recommendation.objects.count() == 0


def test_a_limit_nobody_comes_near_is_lowered_after_28_days_and_not_before() -> None:
    make_recorded(fleet(0.01), days=28)
    calibrate(NOW - timedelta(days=7))
    assert Recommendation.objects.count() == 0
    calibrate()
    row = Recommendation.objects.get()
    assert row.proposed is not None
    assert a_minute(row.proposed) == pytest.approx(8)
    assert row.evidence["days_below"] >= 28
    assert row.summary.startswith("Lower")


def test_too_short_a_history_says_when_there_will_be_enough() -> None:
    make_recorded(fleet(0.5), days=5)
    found = calibrate()
    assert found.insufficient == 1
    assert found.days == pytest.approx(5, abs=0.1)
    row = Recommendation.objects.get()
    assert (row.stage, row.proposed) == (Stage.INSUFFICIENT, None)
    assert row.ready_at is not None
    assert abs(row.ready_at - (NOW + timedelta(days=9))) < timedelta(hours=1)
    assert row.summary == "0 of 6 tenants have 14 days of history here; 5 are needed to size a tier's limit"


def test_too_few_tenants_say_so() -> None:
    make_recorded(fleet(0.5, 3))
    calibrate()
    row = Recommendation.objects.get()
    assert (row.stage, row.ready_at) == (Stage.INSUFFICIENT, None)
    assert row.summary == (
        "3 of 3 tenants have traffic here; 5 are needed to size a tier's limit. Days do not help, so there is no date"
    )


def test_a_throttled_tier_gets_more_than_it_was_allowed_and_is_known_from_below() -> None:
    bucket = TokenBucket(12, 60 * SECOND_US, 15)
    make_recorded({f"t{n}": working(f"t{n}", 0.3, Throttle(bucket)) for n in range(5)}, days=15)
    calibrate()
    row = Recommendation.objects.get(kind=Kind.TIER)
    assert row.evidence["wanted"]["rate"] > 0.3 > 12 / 60
    assert row.evidence["is_lower_bound"]
    assert row.evidence["interval"]["high"] is None
    assert row.evidence["censored"]["hours"] > 50
    assert row.trust == Trust.LOW


def test_an_abuser_moves_nobodys_limit_and_gets_no_override() -> None:
    calm = fleet(0.05, 9)
    make_recorded(calm | {"rogue": _since(1, 0.05, 3.0)})
    calibrate()
    assert Recommendation.objects.count() == 0


def test_a_tenant_above_its_tier_is_an_override_and_no_inflation_for_all() -> None:
    make_giant()
    row = Recommendation.objects.get()
    assert (row.kind, row.tenant, row.tier) == (Kind.OVERRIDE, "giant", "pro")
    assert row.proposed is not None
    assert (row.proposed["parameters"]["rate"], row.proposed["parameters"]["per"]) == (24, "1m")


def test_the_forecast_of_an_override_reads_the_data_of_its_tenant_alone() -> None:
    """Twenty overrides of a limit would otherwise read all tenants twenty times."""
    make_giant()
    row = Recommendation.objects.get()
    with CaptureQueriesContext(connection) as seen:
        recommendation_simulate(recommendation=row.pk, author="ann")
    number = Tenant.objects.get(name="giant").number
    reads = [query["sql"] for query in seen if "quotas_seconds" in query["sql"]]
    assert reads
    assert all(f"IN ({number})" in sql or f"'{{{number}}}'" in sql for sql in reads)


def test_a_new_tenant_has_no_vote_and_gets_its_tiers() -> None:
    make_recorded(fleet(0.05, 6) | {"late": _since(3, 0.0, 2.0)})
    calibrate()
    assert Recommendation.objects.count() == 0


def test_again_brings_it_up_to_date_and_what_no_longer_stands_is_withdrawn() -> None:
    make_recorded(fleet(0.5))
    calibrate()
    calibrate()
    row = Recommendation.objects.get()
    Recommendation.objects.filter(pk=row.pk).update(stage=Stage.SHADOW)
    calibrate()
    assert Recommendation.objects.get().stage == Stage.SHADOW


def test_what_was_dismissed_is_not_proposed_again_for_a_while() -> None:
    make_recorded(fleet(0.5))
    calibrate()
    recommendation_dismiss(recommendation=Recommendation.objects.get().pk, **SAID)
    Recommendation.objects.update(ended_at=NOW)
    calibrate()
    assert Recommendation.objects.get().stage == Stage.DISMISSED


def test_limits_that_share_are_skipped_with_the_reason_and_the_others_are_sized_as_before() -> None:
    make_recorded(fleet(0.5))
    shared = {"name": "shared", "algorithm": "pool", "rate": 100, "per": "1s", "burst": 200}
    part = {"name": "part", "algorithm": "borrowing", "assured": 10, "parent": "shared", "subject": "key"}
    policy_create(name="pro-all", tier="pro", endpoint="*", limits=[shared, part], **FORCED)
    found = calibrate()
    assert [(one["policy"], one["limit"]) for one in found.skipped] == [("pro-all", "shared"), ("pro-all", "part")]
    assert all("the pool's page proposes all shares at once" in one["why"] for one in found.skipped)
    assert (found.limits, found.idle) == (2, 1)  # steady, and the one of the tier without tenants
    assert Recommendation.objects.get(kind=Kind.TIER).limit == "steady"
