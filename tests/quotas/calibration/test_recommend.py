"""From estimates to limits: pooling, shrinkage, the gate and small changes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotas.calibration.burst import Point
from quotas.calibration.estimate import Confidence, Estimate, Span
from quotas.calibration.parameters import DEFAULTS, Parameters
from quotas.calibration.recommend import Insufficient, TierLimit, change, pool, recommend, shrunk


def made(tenant: str, rate: float, burst: int = 10, days: float = 28, active: int = 40_320) -> Estimate:
    used = Span(0, days * 86_400)
    point, confidence = Point(rate, burst), Confidence(days, active)
    return Estimate(tenant, "e", rate, point, 1.0, confidence, False, used, (), 0.0, rate * 60, {})


def crowd(count: int = 40, low: float = 1.0, high: float = 10.0) -> list[Estimate]:
    return [made(f"t{n}", float(rate)) for n, rate in enumerate(np.linspace(low, high, count))]


def tier_of(estimates: list[Estimate]) -> TierLimit:
    found = pool(estimates)
    assert isinstance(found, TierLimit)
    return found


def test_the_tier_covers_nineteen_of_twenty_with_a_margin() -> None:
    tier = tier_of(crowd())
    assert tier.votes == 40
    assert tier.point.rate / DEFAULTS.margin == pytest.approx(np.quantile(np.linspace(1, 10, 40), 0.95), rel=0.02)
    assert tier.point.burst == 15


@pytest.mark.parametrize("count", [5, 20, 40])
def test_one_tenant_far_above_the_others_moves_the_tier_by_its_one_place_alone(count: int) -> None:
    without, abused = crowd(count), [*crowd(count)[1:], made("t0", 1e6, 10**6)]
    top = max(one.rate for one in without) * DEFAULTS.margin
    assert tier_of(abused).point.rate <= top
    assert tier_of(abused).point.rate <= tier_of(without).point.rate * (1.1 if count >= 20 else 1.4)


def test_who_is_above_the_tier_is_suggested_an_override() -> None:
    found = recommend([*crowd(), made("big", 50.0, 400)])
    assert [one.estimate.tenant for one in found.overrides if one.estimate.tenant == "big"] == ["big"]
    big = found.tenants["big"]
    assert big.point.rate == pytest.approx(50 * DEFAULTS.margin)
    assert big.low < big.point.rate < big.high


def test_a_new_tenant_gets_its_tiers() -> None:
    found = recommend([*crowd(), made("new", 0.1, 2, days=3, active=4_000)])
    assert isinstance(found.tier, TierLimit)
    new = found.tenants["new"]
    assert new.point == found.tier.point
    assert new.insufficient == Insufficient("insufficient data: 3.0 of 14 days; the tier's limit holds")


def test_too_few_tenants_cannot_speak_for_a_tier() -> None:
    found = recommend(crowd(4))
    assert isinstance(found.tier, Insufficient)
    assert "4 tenants have enough history here; 5 are needed" in found.tier.reason
    assert all(one.insufficient for one in found.tenants.values())
    assert "1 tenant has enough history here" in str(recommend(crowd(1)).tier)
    assert isinstance(recommend([]).tier, Insufficient)


def test_a_backtest_ignores_the_gate() -> None:
    found = recommend([made("a", 1.0, days=2, active=2_880), made("b", 2.0, days=2, active=2_880)], ignore_gate=True)
    assert isinstance(found.tier, TierLimit)
    assert found.tenants["a"].insufficient is None


@given(st.floats(0.01, 1e4), st.floats(0.01, 1e4), st.floats(0, 28))
def test_shrinking_never_takes_away_and_never_goes_beyond_the_tier(own: float, tier: float, c: float) -> None:
    found = shrunk(own, tier, c)
    assert own * (1 - 1e-9) <= found <= max(own, tier) * (1 + 1e-9)


def test_the_less_is_known_the_closer_to_the_tier() -> None:
    limits = [shrunk(1.0, 100.0, c) for c in (0.0, 0.1, 1.0, 7.0, 28.0)]
    assert limits[0] == 100.0
    assert limits == sorted(limits, reverse=True)
    assert limits[-1] == pytest.approx(1.0, rel=0.01)


CURRENT = Point(100.0, 200)


@pytest.mark.parametrize(
    ("wanted", "days_below", "proposed"),
    [
        (Point(105.0, 200), 0, None),  # too small to be worth it
        (Point(150.0, 200), 0, Point(150.0, 200)),
        (Point(900.0, 5_000), 0, Point(200.0, 400)),  # at most doubled
        (Point(100.0, 300), 0, Point(100.0, 300)),
        (Point(50.0, 100), 27, None),  # not quiet for long enough
        (Point(80.0, 150), 28, Point(80.0, 150)),
        (Point(10.0, 20), 28, Point(100 / 1.5, 134)),  # at most by a third
        (Point(95.0, 195), 28, None),
        (Point(50.0, 300), 28, Point(100.0, 300)),  # up in one, so not down in the other
    ],
)
def test_only_what_is_worth_a_change_is_proposed(wanted: Point, days_below: float, proposed: Point | None) -> None:
    found = change(CURRENT, wanted, days_below)
    assert (found.proposed if found else None) == proposed


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("margin", 0.9, "margin is a factor and must be at least 1, not 0.9"),
        ("pool_quantile", 95, "pool_quantile is a share and must be at most 1, not 95"),
        ("half_life_days", 0, "half_life_days must be above 0, not 0"),
        ("half_life_days", float("nan"), "half_life_days must be above 0, not nan"),
    ],
)
def test_a_parameter_that_cannot_work_is_refused(field: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Parameters(**{field: value})  # type: ignore[arg-type]
