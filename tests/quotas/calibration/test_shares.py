"""The shares of a pool, proposed for demand that is known exactly."""

from __future__ import annotations

import numpy as np
import pytest

from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.sharing import Borrowing, Pool
from quotas.calibration.counts import DAY_S, MINUTE_S, Counts
from quotas.calibration.demand import demand_from_counts
from quotas.calibration.estimate import Observed
from quotas.calibration.parameters import Parameters
from quotas.calibration.recommend import Insufficient
from quotas.calibration.shares import Need, fit_shares, need_of, reasons_for

DAYS = 20
NOW_S = 20_000 * DAY_S
NOTHING = Counts(MINUTE_S, np.empty(0, np.int64), np.empty(0))
# Without outlook, margins and the weight of age, a share is the percentile itself.
BARE = Parameters(margin=1.0, burst_margin=1.0, unrest=0.0, trend_tau=1.0, half_life_days=1_000_000 - 1)
MINUTE_US = 60 * SECOND_US


def observed(rates: list[float], days: int = DAYS, denied: float = 0.0) -> Observed:
    """Every second of an hour a day, at each of these rates for the same number of minutes."""
    seconds = np.concatenate([np.arange(3_600) + NOW_S - day * DAY_S for day in range(days, 0, -1)])
    units = np.tile(np.repeat(rates, 3_600 // len(rates)), days).astype(np.float64)
    fine = Counts(1, seconds, units)
    minutes = fine.coarser(MINUTE_S)
    refused = Counts(MINUTE_S, minutes.starts_s, minutes.units * denied) if denied else NOTHING
    allowed = Counts(MINUTE_S, minutes.starts_s, minutes.units * (1 - denied))
    demand = demand_from_counts(allowed, refused)
    return Observed("acme", "*", demand, fine, float(seconds[0]))


def need(rates: list[float], denied: float = 0.0, parameters: Parameters = BARE) -> Need:
    found = need_of(observed(rates, denied=denied), NOW_S, parameters)
    assert isinstance(found, Need)
    return found


def share(assured: int = 10, per_us: int = SECOND_US, burst: int = 10, ceiling: int = 100) -> Borrowing:
    return Borrowing(assured, per_us, burst if assured else 0, ceiling, max(burst, ceiling), 0, "shared")


def pool(rate: int = 100, burst: int = 200) -> Pool:
    return Pool(rate, SECOND_US, burst)


def test_a_member_is_guaranteed_the_median_of_its_demand_by_load_and_may_go_to_the_98th_percentile() -> None:
    # 30 min at 10/s carry 18,000, 20 min at 30/s carry 36,000, 10 min at 40/s carry 24,000: half of 78,000 came at
    # 30/s or less, and 98 % at 40/s or less.
    found = need([10, 10, 10, 30, 30, 40])
    assert (found.assured, found.ceiling) == (30.0, 40.0)
    assert found.burst == 40
    fitted = fit_shares(pool(), {"acme": found}, {"acme": share()})
    assert fitted.shares["acme"] == Borrowing(30, SECOND_US, 40, 40, found.ceiling_burst, 0, "shared")


def test_the_ceiling_has_the_margins_of_every_limit_and_the_guaranteed_share_has_none() -> None:
    found = need([10, 10, 10, 30, 30, 40], parameters=Parameters(unrest=0.0, trend_tau=1.0))
    assert found.assured == 30
    assert found.ceiling == pytest.approx(40 * 1.15)
    assert found.burst == 60


def test_what_was_denied_is_demand_too() -> None:
    found = need([10, 10, 10, 30, 30, 40], denied=0.5)
    assert (found.assured, found.ceiling) == (30.0, 40.0)
    assert found.estimate.is_lower_bound
    said = reasons_for(found, share(), 1.0)
    assert "it was denied so often that its demand may be higher still" in said


def test_too_short_a_history_is_said_and_not_guessed() -> None:
    found = need_of(observed([10], days=5), NOW_S, BARE)
    assert found == Insufficient("insufficient data: 5.0 of 14 days; its share stays")


def test_shares_that_add_up_to_more_than_the_pool_are_cut_in_proportion_with_a_warning() -> None:
    needs = {name: need([rate]) for name, rate in (("a", 80.0), ("b", 40.0), ("c", 30.0))}
    fitted = fit_shares(pool(100), needs, dict.fromkeys(needs, share()))
    assert [fitted.shares[name].assured for name in "abc"] == [53, 26, 20]
    assert fitted.cut_to == pytest.approx(2 / 3)
    (warning,) = fitted.warnings(pool(100))
    assert "guaranteed shares are cut to 67 % of them" in warning


def test_members_without_enough_data_keep_their_share_and_come_first() -> None:
    needs = {"a": need([60.0]), "b": need([60.0])}
    fitted = fit_shares(pool(100), needs, {"a": share(), "b": share(), "young": share(40)})
    assert {name: one.assured for name, one in fitted.shares.items()} == {"a": 30, "b": 30}
    assert fit_shares(pool(100), {"a": need([50.0])}, {"a": share(), "young": share(100)}).shares == {}


def test_without_any_room_nothing_is_proposed_and_the_reason_is_said() -> None:
    fitted = fit_shares(pool(100), {"a": need([50.0])}, {"a": share(), "young": share(100)})
    (warning,) = fitted.warnings(pool(100))
    assert warning.startswith("Members without enough data are guaranteed all of the pool's rate already")


def test_the_reserve_holds_all_bursts_where_they_fit_and_leaves_something_to_lend_where_not() -> None:
    needs = {"a": need([20.0]), "b": need([30.0])}
    now = dict.fromkeys(needs, share())
    assert fit_shares(pool(100, burst=200), needs, now).reserve == 50
    assert fit_shares(pool(100, burst=50), needs, now).reserve == 40


def test_a_share_below_one_a_second_is_written_in_a_longer_span() -> None:
    fitted = fit_shares(pool(), {"a": need([0.25])}, {"a": share()})
    found = fitted.shares["a"]
    assert (found.assured, found.per_us) == (15, MINUTE_US)
    assert found.ceiling is not None
    assert found.ceiling >= found.assured


def test_no_ceiling_is_above_the_pool_or_below_the_guaranteed_share() -> None:
    found = fit_shares(pool(20, burst=30), {"a": need([50.0])}, {"a": share()}).shares["a"]
    assert (found.assured, found.ceiling, found.ceiling_burst) == (20, 20, 30)


def test_weight_parent_and_the_reserve_for_its_own_children_stay() -> None:
    held = Borrowing(10, SECOND_US, 10, 100, 100, 5, "org", 7)
    found = fit_shares(pool(), {"a": need([20.0])}, {"a": held}).shares["a"]
    assert (found.parent, found.weight, found.reserve) == ("org", 7, 5)
