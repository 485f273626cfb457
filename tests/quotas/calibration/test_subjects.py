"""Limits by key, user or address, from subjects whose every arrival is known: what each needs, and who decides."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headroom_edge.algorithms import TokenBucket
from headroom_edge.algorithms.base import SECOND_US
from quotas.calibration.burst import Rate, burst_at
from quotas.calibration.counts import DAY_S
from quotas.calibration.demand import first_attempts
from quotas.calibration.estimate import Estimate
from quotas.calibration.parameters import DEFAULTS, Parameters
from quotas.calibration.sizing import bucket
from quotas.calibration.subjects import MOST_SUBJECTS, Place, observed_subjects, subject_estimate
from quotas.observations.arrays import Attempts
from quotas.simulation.synthetic_tenants import SyntheticTenant, cron_burst, steady
from tests.quotas.known_tenants import retry_storm, throttled, true_rate

NOW = 20_000 * DAY_S
PLACE = Place("acme", "e")


def attempts(subjects: list[SyntheticTenant], days: float = 2) -> Attempts:
    """Each subject is drawn as a synthetic tenant, whose truth is known."""
    found = [one.attempts(NOW - days * DAY_S, NOW, np.random.default_rng(seed)) for seed, one in enumerate(subjects)]

    def column(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in found])

    numbers = np.concatenate([np.full(len(part), number) for number, part in enumerate(found)])
    return Attempts(column("times_us"), column("costs"), numbers, column("denied"), column("retry_us"))


def seen(subjects: list[SyntheticTenant], days: float = 2, parameters: Parameters = DEFAULTS) -> Estimate:
    return subject_estimate(list(observed_subjects(attempts(subjects, days), PLACE)), NOW, parameters)


def test_the_rate_of_a_subject_is_found_within_the_bounds_that_are_stated() -> None:
    subjects = [steady(f"k{n}", 0.2) for n in range(12)]
    truth = true_rate(subjects[0], NOW - 2 * DAY_S, NOW, DEFAULTS.rate_quantile)
    found = seen(subjects)
    assert found.low <= truth <= found.high
    assert 0.9 * truth <= found.settled.rate
    assert (found.tenant, found.confidence.days > 1.9, found.is_lower_bound) == ("acme", True, False)


def test_an_abuser_among_the_subjects_moves_nothing() -> None:
    calm = [steady(f"k{n}", 0.05) for n in range(9)]
    without, with_one = seen([*calm, steady("k9", 0.05)]), seen([*calm, steady("rogue", 5.0)])
    assert with_one.point.rate <= 1.1 * without.point.rate
    assert with_one.point.burst <= without.point.burst + 2


def test_bursts_are_those_of_single_arrivals_to_the_unit() -> None:
    found = seen([cron_burst("a", 0.02, 40), cron_burst("b", 0.02, 40)])
    assert found.settled.burst <= 42  # a second of counts would take all of it as one crowd
    assert found.settled.burst >= 36


def test_a_throttled_subject_gets_more_than_it_was_allowed_and_is_known_from_below() -> None:
    held = TokenBucket(6, 60 * SECOND_US, 6)
    found = seen([throttled(f"k{n}", 0.3, held) for n in range(3)], days=0.3)
    assert found.point.rate > 2 * 6 / 60
    assert found.is_lower_bound


def test_retries_are_no_demand() -> None:
    held = TokenBucket(6, 60 * SECOND_US, 6)
    found = seen([retry_storm(f"k{n}", 0.15, held, 5.0, 20) for n in range(2)], days=0.2)
    assert found.percentiles[0.5] < 0.15 * 2


def test_of_many_subjects_an_even_share_is_looked_at() -> None:
    times = NOW * SECOND_US + np.arange(2 * MOST_SUBJECTS) - DAY_S * SECOND_US
    ones, nothing = np.ones(len(times), np.int64), np.zeros(len(times), np.int64)
    many = Attempts(times, ones, np.arange(len(times)), nothing.astype(bool), nothing)
    assert len(list(observed_subjects(many, PLACE))) == MOST_SUBJECTS


@given(st.lists(st.tuples(st.integers(0, 120 * SECOND_US), st.integers(1, 5)), min_size=1, max_size=40))
def test_the_burst_at_the_chosen_rate_is_exact(rows: list[tuple[int, int]]) -> None:
    times, costs = (np.array(column, np.int64) for column in zip(*sorted(rows), strict=True))
    times = times + (NOW - 3_600) * SECOND_US
    nothing = np.zeros(len(times), np.int64)
    one = Attempts(times, costs, nothing, nothing.astype(bool), nothing)
    assert first_attempts(one).all()
    exact = Parameters(burst_epsilon=0)
    found = subject_estimate(list(observed_subjects(one, PLACE)), NOW, exact)
    whole = bucket(found.settled)
    assert found.settled.burst == burst_at(times, costs, Rate(whole.rate, whole.per_us))
