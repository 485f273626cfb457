"""Tenants that are active for a few minutes a day: how much room they get above their own peaks."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest

from quotas.calibration.burst import Point
from quotas.calibration.estimate import Confidence, DayPeaks, Estimate, Span
from quotas.calibration.parameters import DEFAULTS
from quotas.calibration.rare_tenants import MOST_ROOM, PeakSpread, rare_days
from quotas.calibration.recommend import TierLimit, recommend


def rare(tenant: str, peaks: list[float], a_day: float = 4.0) -> Estimate:
    """Peaks in units a minute, of as many days as there are."""
    whole = max(peaks)
    days = DayPeaks.of(np.array(peaks) / 60, whole)
    confidence = Confidence(28.0, round(28 * a_day))
    rate = whole / 60
    return Estimate(
        tenant, "e", rate, Point(rate, 5), 1.0, confidence, False, Span(0, 28 * 86_400), (), 0.0, whole, {}, days
    )


def crowd(count: int = 30, step: float = 0.3) -> list[Estimate]:
    """Levels from 10 to 300 a minute; each day strays by the same factor up or down."""
    levels = np.geomspace(10, 300, count)
    return [
        rare(f"t{n}", [level * exp(sign * step) for sign in (-1, 1, -1, 1, 0, 0)])
        for n, level in enumerate(levels.tolist())
    ]


def spread_of(estimates: list[Estimate]) -> PeakSpread:
    found = PeakSpread.of(estimates)
    assert found is not None
    return found


def test_only_a_tier_of_which_most_tenants_are_rarely_active_has_a_spread() -> None:
    busy = [rare(f"b{n}", [60.0] * 5, a_day=400) for n in range(31)]
    assert rare_days(busy[0]) is None
    assert PeakSpread.of([*crowd(), *busy]) is None
    assert PeakSpread.of([*crowd(), *busy[:20]]) is not None
    assert PeakSpread.of([]) is None


def test_the_fewer_days_are_known_the_more_room() -> None:
    spread = spread_of(crowd())
    rooms = [spread.room(DayPeaks(days, log(50), spread.within), 50.0) for days in (1, 2, 5, 20)]
    assert rooms == sorted(rooms, reverse=True)
    assert 1.5 < rooms[-1] < rooms[0] < 5


def test_a_tenant_whose_days_differ_more_gets_more_room_than_a_calm_one() -> None:
    spread = spread_of(crowd())
    calm, wild = (spread.room(DayPeaks(6, log(50), variance), 50.0) for variance in (0.0, 1.0))
    assert 1.0 < calm < wild


def test_no_tenant_gets_less_than_its_own_peak_or_any_number_of_times_it() -> None:
    spread = spread_of(crowd())
    assert spread.room(DayPeaks(20, log(10), 0.01), 500.0) == 1.0
    assert spread.room(DayPeaks(2, log(10), 50.0), 10.0) == pytest.approx(MOST_ROOM)


def test_one_wild_tenant_does_not_widen_the_spread_of_all() -> None:
    calm = spread_of(crowd())
    wild = spread_of([*crowd(), rare("wild", [1.0, 10_000.0, 1.0, 10_000.0])])
    assert wild.within < 3 * calm.within


def test_small_tenants_stay_small_though_the_limit_of_their_tier_is_large() -> None:
    found = recommend(crowd(40))
    assert isinstance(found.tier, TierLimit)
    small = found.tenants["t0"]
    assert small.point.rate < found.tier.point.rate / 5
    assert small.a_minute is not None
    assert 1.3 < small.a_minute / small.estimate.peak < 3


def test_a_count_per_minute_is_given_until_rate_and_burst_can_be_told_apart() -> None:
    some, enough = ([rare(f"t{n}", [60.0, 50.0], a_day=minutes) for n in range(6)] for minutes in (100, 600))
    assert enough[0].confidence.c > DEFAULTS.count_below > some[0].confidence.c
    assert recommend(enough).tenants["t0"].a_minute is None
    limit = recommend(some).tenants["t0"]
    assert limit.a_minute == pytest.approx(limit.point.burst + 60 * limit.point.rate)
