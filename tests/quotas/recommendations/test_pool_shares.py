"""What is proposed for the shares of a pool whose members' demand is known, and what the forecast says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.sharing import Borrowing, Pool
from quotas.calibration.shares import OtherMembers
from quotas.observations.arrays import Floats
from quotas.recommendations import pool_shares
from quotas.recommendations.pool_proposal import Outcome, PoolForecast, PoolProposal, PoolShare
from quotas.recommendations.pool_shares import MOST_MEASURED, propose_shares
from quotas.simulation.synthetic_tenants import SyntheticTenant
from tenants.models import Tenant
from tests.quotas.recorded import NOW, make_recorded

pytestmark = pytest.mark.django_db
MINUTE_US = 60 * SECOND_US


def by_hours(name: str, hours: Sequence[int], high: float, low: float = 0.02) -> SyntheticTenant:
    def intensity(seconds: Floats) -> Floats:
        found: Floats = np.where(np.isin(seconds % 86_400 // 3_600, hours), high, low)
        return found

    return SyntheticTenant(name, "by hours", intensity)


DAY = by_hours("day", range(8, 12), 0.5)
NIGHT = by_hours("night", range(20, 24), 0.5)
# 30 a minute each while it is awake, from a pool of 36 a minute.
POOL = Pool(36, MINUTE_US, 60)
FIXED = Borrowing(18, MINUTE_US, 6, 18, 12, 0, "shared")  # half of the pool each, and never more


def members(share: Borrowing = FIXED) -> list[PoolShare]:
    found = Tenant.objects.order_by("number").values_list("number", "name")
    return [PoolShare(name, number, "share", share) for number, name in found]


def proposed(share: Borrowing = FIXED, pool: Pool = POOL) -> PoolProposal:
    return propose_shares(pool, members(share), now=NOW)


def test_partners_of_day_and_night_get_ceilings_that_let_them_lend_and_the_forecast_shows_it() -> None:
    make_recorded({"day": DAY, "night": NIGHT}, days=28)
    found = proposed()
    for one in found.members:
        assert one.proposed is not None
        # Both medians are about 30/min, and half of the pool is all that can be guaranteed to each.
        assert 16 <= one.proposed.assured <= 18
        assert one.proposed.ceiling is not None
        assert one.proposed.ceiling >= 34
        assert any("cut to" in reason for reason in one.reasons)
    assert any(warning.startswith("The medians of demand add up to more") for warning in found.warnings)
    forecast = found.forecast
    assert forecast is not None
    assert forecast.is_unseen
    assert forecast.now.denied_by["ceiling"] > 0.99 * forecast.now.denied
    assert forecast.now.denied_share > 0.2
    assert forecast.then.denied_share < 0.05
    assert forecast.then.borrowed > 0.2 * forecast.then.asked
    assert forecast.now.asked == forecast.then.asked == sum(one.now.asked for one in found.members if one.now)
    assert forecast.sentence.startswith("In the busiest")


def test_a_forecast_says_when_the_shares_of_today_serve_better() -> None:
    few, many = Outcome(asked=100, denied_by={"share": 2}), Outcome(asked=100, denied_by={"share": 3})
    better, worse = (PoolForecast("", "", True, 3_600, now, then) for now, then in ((many, few), (few, many)))
    assert worse.sentence.endswith("today's shares serve better.")
    assert "better" not in better.sentence


def test_a_member_with_too_little_history_keeps_its_share_and_says_so() -> None:
    young = SyntheticTenant("young", "new", lambda s: np.where(s > NOW.timestamp() - 3 * 86_400, 0.1, 0.0))
    make_recorded({"day": DAY, "young": young}, days=28)
    day, new = proposed().members
    assert day.proposed is not None
    assert new.proposed is None
    assert new.reasons == ("insufficient data: 3.0 of 14 days; its share stays",)


def test_without_any_usage_nothing_is_proposed_or_replayed() -> None:
    make_recorded({"day": DAY}, days=1)
    idle = PoolShare("idle", 999, "share", FIXED)
    found = propose_shares(POOL, [idle], now=NOW)
    assert found.forecast is None
    assert found.members[0].reasons == ("insufficient data: no requests in 28 days; its share stays",)
    assert not any(one.proposed for one in found.members)


def test_with_too_few_days_to_hold_any_out_the_forecast_says_that_the_fit_has_seen_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_recorded({"day": DAY}, days=15)
    unseen = proposed().forecast
    monkeypatch.setattr(pool_shares, "HELD_OUT_DAYS", ((7, 14),))
    seen = proposed().forecast
    assert unseen is not None
    assert seen is not None
    assert (unseen.is_unseen, seen.is_unseen) == (True, False)
    assert "that the shares were not fitted to" in unseen.sentence
    assert "that the shares were fitted to" in seen.sentence


def test_members_that_are_not_looked_at_keep_their_shares_and_leave_so_much_less_room() -> None:
    make_recorded({"day": DAY}, days=15)
    found = propose_shares(POOL, members(), others=OtherMembers(3_000, 0.5, 20), now=NOW)
    (day,) = found.members
    assert day.proposed is not None
    assert day.proposed.assured <= 6
    assert found.proposed.reserve >= 20
    assert "Only the 1 busiest of 3,001 members were measured; the others keep their shares." in found.warnings


def test_more_members_than_can_be_measured_at_once_are_refused() -> None:
    too_many = [PoolShare(f"t{number}", number, "share", FIXED) for number in range(1, MOST_MEASURED + 2)]
    with pytest.raises(ValueError, match="101 members are too many"):
        propose_shares(POOL, too_many, now=NOW)


def test_a_share_that_usage_does_not_tell_apart_stays_with_the_reason() -> None:
    make_recorded({"day": DAY}, days=15)
    (member,) = members()
    found = propose_shares(POOL, [replace(member, unmeasured="counted by key")], now=NOW)
    assert (found.members[0].proposed, found.members[0].reasons) == (None, ("counted by key",))
    assert found.forecast is None


def test_a_replay_that_would_be_too_long_takes_the_busiest_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    make_recorded({"day": DAY, "night": NIGHT}, days=15)
    whole = proposed().forecast
    monkeypatch.setattr(pool_shares, "MOST_ARRIVALS", 2_000)
    part = proposed().forecast
    assert whole is not None
    assert part is not None
    assert 0 < part.seconds < whole.seconds
    assert part.now.asked / part.seconds > whole.now.asked / whole.seconds


def test_a_share_that_fits_is_left_as_it_is() -> None:
    make_recorded({"day": DAY}, days=28)
    (first,) = proposed().members
    assert first.proposed is not None
    (second,) = proposed(first.proposed).members
    assert second.proposed is None
    assert second.reasons[0] == "its share fits"


def test_shares_that_count_different_endpoints_are_measured_each_for_itself() -> None:
    make_recorded({"day": DAY}, days=15)
    (member,) = members()
    elsewhere = replace(member, endpoints=frozenset({9_999}), scope="rides:none")
    found = propose_shares(POOL, [member, elsewhere], now=NOW)
    assert found.members[0].proposed is not None
    assert found.members[1].proposed is None
