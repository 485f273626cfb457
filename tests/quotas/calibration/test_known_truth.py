"""The estimators against tenants whose demand is known: within the bounds they state, as often as they should be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from headroom_edge.algorithms import TokenBucket
from headroom_edge.algorithms.base import SECOND_US
from quotas.calibration.burst import Rate, burst_at
from quotas.calibration.counts import DAY_S, MINUTE_S, Counts
from quotas.calibration.demand import Demand, demand_of
from quotas.calibration.estimate import Estimate, Observed, Span, curve_around, estimate
from quotas.calibration.parameters import DEFAULTS
from quotas.calibration.recommend import TierLimit, recommend
from quotas.observations.arrays import Attempts
from quotas.simulation import synthetic_tenants
from quotas.simulation.synthetic_tenants import SyntheticTenant
from tests.quotas.known_tenants import retry_storm, throttled, true_rate
from tests.sweeps import first_of

NOW = 20_002 * DAY_S  # a Monday, if weeks began with the epoch
DAYS = 28
START = NOW - DAYS * DAY_S


def observed(tenant: SyntheticTenant, fine: Counts, first_s: float = START) -> Observed:
    minutes = fine.coarser(MINUTE_S)
    return Observed(tenant.name, "e", Demand(minutes, np.zeros(len(minutes), dtype=bool)), fine, first_s)


def counted(tenant: SyntheticTenant, seed: int = 1, since_s: int = START, step_s: int = 10) -> Counts:
    starts, counts = tenant.counts(since_s, NOW, step_s, np.random.default_rng(seed))
    return Counts(step_s, starts, counts.astype(np.float64))


def seen(tenant: SyntheticTenant, seed: int = 1, since_s: int = START, step_s: int = 60) -> Estimate:
    return estimate(observed(tenant, counted(tenant, seed, since_s, step_s), since_s), NOW)


def seen_through_attempts(tenant: SyntheticTenant, attempts: Attempts, first_s: float) -> Estimate:
    demand = demand_of(attempts)
    return estimate(Observed(tenant.name, "e", demand, demand.minutes, first_s), NOW)


KINDS: dict[str, Callable[[], SyntheticTenant]] = {
    "steady": lambda: synthetic_tenants.steady("a", 0.5),
    "diurnal": lambda: synthetic_tenants.diurnal_weekly("b", 0.05, 0.6),
    "cron": lambda: synthetic_tenants.cron_burst("c", 0.2, 40),
}


@pytest.mark.parametrize("kind", first_of(["diurnal", "steady", "cron"]))
def test_the_rate_lies_within_its_bounds_as_often_as_it_should(kind: str) -> None:
    tenant, tried = KINDS[kind](), 60
    truth = true_rate(tenant, START, NOW, DEFAULTS.rate_quantile)
    found = [seen(tenant, seed) for seed in range(tried)]
    assert all(1 < one.confidence.widening < 1.1 for one in found)
    assert sum(one.low <= truth <= one.high for one in found) / tried >= 0.9


def test_a_tenant_seen_for_a_few_days_has_wider_bounds_that_still_hold() -> None:
    tenant, since = synthetic_tenants.steady("a", 0.3), NOW - 3 * DAY_S
    truth = true_rate(tenant, START, NOW, DEFAULTS.rate_quantile)
    found = [seen(tenant, seed, since) for seed in range(30)]
    assert all(one.confidence.widening == pytest.approx(1 + 1 / 3, rel=0.1) for one in found)
    assert sum(one.low <= truth <= one.high for one in found) / 30 >= 0.9


def test_the_burst_of_a_cron_job_is_its_size() -> None:
    tenant = synthetic_tenants.cron_burst("c", 0.2, 40)
    times = tenant.demand(START, NOW, np.random.default_rng(2))
    exact = burst_at(times, np.ones_like(times), Rate(1))
    assert 40 <= exact <= 50
    for step_s in (1, 10, 60):
        point = seen(tenant, step_s=step_s).settled
        assert 40 <= point.burst + MINUTE_S * point.rate <= 3.5 * 40


def test_growth_is_expected_to_go_on() -> None:
    tenant = synthetic_tenants.growing("g", 0.05, 1.08, START)
    found = seen(tenant)
    next_week = true_rate(tenant, NOW, NOW + 7 * DAY_S, DEFAULTS.rate_quantile)
    assert found.growth > 1.15
    assert found.rate < next_week
    assert found.low <= next_week <= found.rate * found.growth * DEFAULTS.margin * 1.25
    limit = recommend([found], ignore_gate=True).tenants["g"]
    assert next_week * 0.8 <= limit.point.rate <= next_week * 1.3


def test_steady_and_weekly_traffic_has_no_growth() -> None:
    for kind in ("steady", "diurnal"):
        assert seen(KINDS[kind]()).growth == 1.0


def test_who_is_throttled_already_gets_more_than_it_was_allowed() -> None:
    allowed = 0.3
    tenant = throttled("t", 0.6, TokenBucket(18, 60 * SECOND_US, 5))
    since = NOW - 5 * DAY_S
    found = seen_through_attempts(tenant, tenant.attempts(since, NOW, np.random.default_rng(1)), since)
    assert found.is_lower_bound
    assert found.high == float("inf")
    assert found.censored_share > 0.9
    limit = recommend([found], ignore_gate=True).tenants["t"]
    assert limit.point.rate > 1.5 * allowed
    assert limit.point.rate >= 0.95 * true_rate(tenant, START, NOW, DEFAULTS.rate_quantile)


def test_a_retry_storm_counts_each_request_once() -> None:
    tenant = retry_storm("r", 0.6, TokenBucket(18, 60 * SECOND_US, 5))
    draw = np.random.default_rng(3)
    attempts = tenant.attempts(NOW - DAY_S, NOW, draw)
    offered = demand_of(attempts).minutes.total
    truth = 0.6 * DAY_S
    assert len(attempts) > 2.5 * truth
    assert 0.9 * truth <= offered <= 1.1 * truth


def crowd(count: int = 20) -> list[SyntheticTenant]:
    return [synthetic_tenants.steady(f"t{n:02d}", 0.05 + 0.02 * n) for n in range(count)]


def test_an_abuser_moves_nobodys_limit() -> None:
    honest = [seen(tenant, seed) for seed, tenant in enumerate(crowd())]
    abusing = seen(synthetic_tenants.abuser("t05", 0.15, 200.0, NOW - 6 * 3_600))
    before, after = recommend(honest), recommend([*honest[:5], abusing, *honest[6:]])
    assert isinstance(before.tier, TierLimit)
    assert isinstance(after.tier, TierLimit)
    assert after.tier.point.rate == pytest.approx(before.tier.point.rate, rel=DEFAULTS.small_change)
    for tenant in before.tenants:
        if tenant != "t05":
            assert after.tenants[tenant].point.rate == pytest.approx(before.tenants[tenant].point.rate, rel=0.1)


def test_a_new_tenant_gets_its_tiers_and_is_told_why() -> None:
    since = NOW - 2 * DAY_S
    found = recommend([*(seen(tenant) for tenant in crowd()), seen(synthetic_tenants.new("n", 0.01, since), 1, since)])
    assert isinstance(found.tier, TierLimit)
    assert found.tenants["n"].point == found.tier.point
    assert found.tenants["n"].insufficient is not None


def test_gaps_are_left_out_and_told() -> None:
    tenant = synthetic_tenants.steady("a", 0.5)
    gap = Span(NOW - 10 * DAY_S, NOW - 3 * DAY_S)
    whole = observed(tenant, counted(tenant))
    found = estimate(Observed("a", "e", whole.demand, whole.fine, START, (gap,)), NOW)
    assert found.excluded == (gap,)
    assert found.confidence.days == pytest.approx(DAYS - 7)
    assert found.confidence.active_minutes < whole.demand.minutes.starts_s.size * 0.8


def test_the_evidence_shows_the_curve_around_the_chosen_point() -> None:
    tenant = synthetic_tenants.cron_burst("c", 0.2, 40)
    data = observed(tenant, counted(tenant, step_s=1))
    found = estimate(data, NOW)
    points = curve_around(data, found)
    assert points[0].rate < found.settled.rate < points[-1].rate
    assert [p.burst for p in points] == sorted((p.burst for p in points), reverse=True)
    assert found.settled.burst <= DEFAULTS.burst_seconds * found.settled.rate


def test_nothing_seen_is_no_rate_and_no_curve() -> None:
    nobody = synthetic_tenants.steady("z", 0.0)
    data = observed(nobody, counted(nobody))
    found = estimate(data, NOW)
    assert (found.rate, found.confidence.c, found.confidence.widening) == (0.0, 0.0, float("inf"))
    assert curve_around(data, found) == ()
