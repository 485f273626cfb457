"""Made tenants keep what they promise: their demand is the truth that the estimators are tested against."""

import numpy as np
import pytest

from headroom_edge.algorithms import TokenBucket
from headroom_edge.algorithms.base import SECOND_US
from quotas.simulation import synthetic_tenants
from quotas.simulation.synthetic_tenants import DAY_S, HOUR_S, MINUTE_S, SyntheticTenant
from tests.quotas.known_tenants import load_quantile_of_poisson, retry_storm, throttled, true_rate

START = 20_000 * DAY_S


def draw(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    ("tenant", "mean"),
    [
        (synthetic_tenants.steady("a", 2.0), 2.0),
        (synthetic_tenants.diurnal_weekly("b", 1.0, 3.0, weekend=1.0), 2.0),
        (synthetic_tenants.cron_burst("c", 1.0, 3_600), 2.0),
        (synthetic_tenants.new("d", 4.0, START + DAY_S // 2), 2.0),
        (synthetic_tenants.abuser("e", 0.5, 7.0, START + DAY_S // 2), 2.0),
        (synthetic_tenants.growing("f", 2.0, 1.0, START), 2.0),
    ],
    ids=lambda value: value.kind if isinstance(value, SyntheticTenant) else None,
)
def test_it_asks_for_as_much_as_its_rate_says(tenant: SyntheticTenant, mean: float) -> None:
    times = tenant.demand(START, START + DAY_S, draw())
    assert (np.diff(times) >= 0).all()
    assert len(times) == pytest.approx(mean * DAY_S, rel=0.02)
    assert START * SECOND_US <= times[0] <= times[-1] < (START + DAY_S) * SECOND_US


def test_the_same_seed_gives_the_same_arrivals() -> None:
    tenant = synthetic_tenants.diurnal_weekly("a", 0.1, 1.0)
    assert np.array_equal(tenant.demand(START, START + HOUR_S, draw(5)), tenant.demand(START, START + HOUR_S, draw(5)))


def test_a_cron_job_comes_in_its_second() -> None:
    times = synthetic_tenants.cron_burst("a", 0.0, 50).demand(START, START + DAY_S, draw())
    assert len(times) == 24 * 50
    assert (times // SECOND_US % HOUR_S == 0).all()


def test_growth_grows_by_its_factor_each_day() -> None:
    times = synthetic_tenants.growing("a", 1.0, 1.3, START).demand(START, START + 5 * DAY_S, draw())
    days = np.bincount((times // SECOND_US - START) // DAY_S)
    assert days[1:] / days[:-1] == pytest.approx(np.full(4, 1.3), rel=0.03)


def test_a_throttled_tenant_is_denied_what_is_above_its_limit() -> None:
    attempts = throttled("a", 10.0, TokenBucket(5, SECOND_US, 10)).attempts(START, START + HOUR_S, draw())
    assert attempts.denied.mean() == pytest.approx(0.5, abs=0.02)
    assert (attempts.retry_us[attempts.denied] > 0).all()


def test_a_retry_storm_makes_many_attempts_of_few_requests() -> None:
    tenant = retry_storm("a", 10.0, TokenBucket(5, SECOND_US, 10))
    attempts = tenant.attempts(START, START + HOUR_S, draw())
    asked = tenant.demand(START, START + HOUR_S, draw())
    assert len(attempts) > 2 * len(asked)
    assert (np.diff(attempts.times_us) >= 0).all()


def test_nobody_in_the_way_denies_nothing() -> None:
    attempts = synthetic_tenants.steady("a", 1.0).attempts(START, START + HOUR_S, draw())
    assert not attempts.denied.any()
    assert len(set(attempts.subjects.tolist())) == synthetic_tenants.SUBJECTS


@pytest.mark.parametrize("q", [0.5, 0.9, 0.98])
def test_the_true_rate_is_what_many_draws_show(q: float) -> None:
    means = np.array([3.0, 30.0, 300.0])
    counts = np.sort(draw().poisson(means, (40_000, 3)).ravel())
    seen = counts[np.searchsorted(np.cumsum(counts), q * counts.sum())]
    assert load_quantile_of_poisson(means, q) == pytest.approx(seen, abs=1)


def test_the_true_rate_of_a_cron_job_counts_its_minute() -> None:
    tenant = synthetic_tenants.cron_burst("a", 0.01, 600)
    assert true_rate(tenant, START, START + DAY_S, 0.98) == pytest.approx(600 / MINUTE_S, rel=0.15)
