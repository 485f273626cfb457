"""What a recommendation says it is good for, and which ones are not shown at all."""

from __future__ import annotations

from typing import Any

import pytest

from headroom_edge.algorithms import FixedWindow, TokenBucket
from headroom_edge.algorithms.base import SECOND_US
from quotas.models import LimitNeed, Recommendation
from quotas.models.recommendation import Kind, Stage
from quotas.overrides import override_create
from quotas.recommendations.benefit import benefit_of, verb_of
from quotas.recommendations.calibrate import calibrate
from tests.quotas.recorded import make_held_too_low, make_recorded, working
from tests.quotas.world import GET, SAID

TEN_S = 10 * SECOND_US


def bucket(rate: int, burst: int = 10, per_us: int = TEN_S) -> TokenBucket:
    return TokenBucket(rate, per_us, burst)


def unseen(*tenants: tuple[int, int, int], days: float = 7.0) -> dict[str, Any]:
    """Units, denied now and denied then of each tenant."""
    rows: list[dict[str, Any]] = [
        {"tenant": f"t{n}", "units": units, "denied_now": now, "denied_then": then}
        for n, (units, now, then) in enumerate(tenants)
    ]
    sums = {name: sum(row[name] for row in rows) for name in ("units", "denied_now", "denied_then")}
    return {"unseen": {"days": days, "tenants": rows, **sums}}


def test_a_raise_says_how_many_429s_it_ends_for_whom_and_what_it_costs() -> None:
    found = benefit_of(bucket(36), bucket(72), unseen((9_000, 4_200, 70), (9_000, 700, 0), (9_000, 0, 0)), {})
    assert found.is_worth
    assert found.sentence == "Ends 690 of 700 429s a day for 2 tenants; lets each send up to 36/10s more"
    assert (found.ended, found.helped) == (690, ("t0", "t1"))


def test_where_capacity_is_known_the_cost_is_a_share_of_it() -> None:
    found = benefit_of(bucket(36), bucket(72), unseen((9_000, 4_200, 0)), {"capacity": {"load": 30.0}})
    assert found.sentence == "Ends 600 of 600 429s a day for t0; lets the busiest use 12 % more of capacity"


def test_a_raise_of_the_burst_alone_says_so() -> None:
    found = benefit_of(bucket(36, 10), bucket(36, 25), unseen((9_000, 4_200, 0)), {})
    assert found.sentence.endswith("lets each send 15 more at once")
    assert verb_of(bucket(36, 10), bucket(36, 25)) == "Raise the burst of"
    assert verb_of(bucket(36, 25), bucket(36, 10)) == "Lower the burst of"
    assert (verb_of(bucket(1), bucket(2)), verb_of(bucket(2), bucket(1))) == ("Raise", "Lower")


@pytest.mark.parametrize(
    "days",
    [
        unseen((9_000, 0, 0)),  # nobody is denied today
        unseen((9_000, 4_200, 4_200)),  # it changes nothing
        unseen((9_000, 60, 45)),  # chance
        unseen((9_000_000, 70, 0)),  # far below what a limit may deny anyway
        unseen((9_000, 5, 0)),  # less than one a day
        {"unseen": None},
    ],
)
def test_a_raise_that_ends_no_429s_beyond_chance_is_not_worth_it(days: dict[str, Any]) -> None:
    assert not benefit_of(bucket(36), bucket(72), days, {}).is_worth


def test_the_cost_of_an_override_is_of_one_tenant() -> None:
    found = benefit_of(bucket(36), bucket(72), unseen((9_000, 4_200, 70)), {}, is_of_one=True)
    assert found.sentence.endswith("lets it send up to 36/10s more")
    found = benefit_of(bucket(36, 10), bucket(36, 25), unseen((9_000, 4_200, 0)), {}, is_of_one=True)
    assert found.sentence.endswith("lets it send 15 more at once")


def test_a_cut_says_what_it_frees_and_whom_it_denies() -> None:
    free = benefit_of(bucket(60), bucket(40), unseen((90_000, 0, 0)), {"affected_count": 14})
    assert free.sentence == "Frees 28/s that nobody uses (14 tenants × 20/10s); denies nobody"
    minute = 60 * SECOND_US
    some = benefit_of(FixedWindow(60, minute), FixedWindow(30, minute), unseen((90_000, 0, 70)), {"affected_count": 1})
    assert some.sentence == "Frees 0.5/s that nobody uses; would deny 10 requests a day"


def test_a_cut_that_denies_what_is_asked_for_is_not_worth_it() -> None:
    assert not benefit_of(bucket(60), bucket(40), unseen((90_000, 0, 900)), {"affected_count": 14}).is_worth
    assert not benefit_of(bucket(60, 20), bucket(60, 10), unseen((90_000, 0, 0)), {}).is_worth


@pytest.mark.django_db
def test_a_proposal_that_would_end_no_429s_is_not_filed_and_the_run_says_why() -> None:
    """They need a little more than the limit with its margin, and are denied nothing."""
    make_recorded({f"t{n}": working(f"t{n}", 0.13, hours=4) for n in range(6)})
    found = calibrate()
    assert found.proposed == []
    assert Recommendation.objects.count() == 0
    (left,) = found.left_out
    assert (left["policy"], left["limit"]) == ("pro-get", "steady")
    assert "no 429s" in left["why"]
    assert LimitNeed.objects.get().needed is not None


@pytest.mark.django_db
def test_the_forecast_leads_with_days_that_the_limit_was_not_fitted_on() -> None:
    make_held_too_low()
    row = Recommendation.objects.get()
    days = row.forecast["unseen"]
    assert (row.stage, days["days"], len(days["tenants"])) == (Stage.SIMULATED, 7, 5)
    assert days["denied_now"] > 10 * days["denied_then"]
    assert row.forecast["benefit"]["sentence"].startswith("Ends ")
    assert row.forecast["tenants_hit_now"] == 5
    assert len(days["by_day"]) == 7
    assert sum(day["denied_now"] for day in days["by_day"]) == pytest.approx(days["denied_now"], abs=7)
    denied = {one["name"]: one["denied"] for one in days["limits"]}
    assert set(denied) == {"now", "step", "need", "max_x1.15", "p99_x1.15"}
    assert (denied["now"], denied["step"]) == (days["denied_now"], days["denied_then"])
    assert denied["need"] <= denied["step"]


@pytest.mark.django_db
def test_demand_that_changed_in_the_last_week_is_tried_on_the_last_two_days() -> None:
    from tests.quotas.recommendations.test_calibrate import _since

    make_recorded({f"t{n}": _since(5, 0.05, 0.3) for n in range(6)})
    calibrate()
    row = Recommendation.objects.get(kind=Kind.TIER)
    assert row.forecast["unseen"]["days"] == 2
    assert row.forecast["benefit"]["is_worth"]


@pytest.mark.django_db
def test_a_tenant_with_an_override_in_force_has_no_vote_and_is_replayed_with_what_it_has() -> None:
    make_recorded({f"t{n}": working(f"t{n}", 0.35, hours=2) for n in range(6)}, days=15)
    override_create(tenant="t5", endpoint=GET, limits={"steady": {"rate": 600, "burst": 600}}, **SAID)
    calibrate()
    row = Recommendation.objects.get()
    counts = row.evidence["counts"]
    assert counts == {"tenants": 6, "measured": 5, "idle": 0, "overridden": 1, "sudden": 0}
    effects = {one["tenant"]: one for one in row.forecast["unseen"]["tenants"]}
    assert effects["t0"]["denied_now"] > 0 == effects["t5"]["denied_now"]
    assert "t5" not in row.forecast["benefit"]["helped"]
