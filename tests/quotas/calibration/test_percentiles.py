"""Percentiles by load and age."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from quotas.calibration.counts import DAY_S, Counts, joined
from quotas.calibration.percentiles import load_quantile, quantile, weighted_quantile, weighted_quantiles
from quotas.observations.arrays import whole_numbers


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9)), min_size=1), st.floats(0, 1))
def test_a_weight_is_so_many_copies(pairs: list[tuple[int, int]], q: float) -> None:
    values, weights = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    copies = np.repeat(values, weights.astype(int))
    assert weighted_quantile(values, weights, q) == quantile(copies, q)


def test_each_minute_weighs_as_much_as_it_carried() -> None:
    counts = Counts(60, whole_numbers([0, 60, 120]), np.array([60.0, 60.0, 600.0]))
    assert load_quantile(counts, 0.15, 180, 7) == 1.0
    assert load_quantile(counts, 0.5, 180, 7) == 10.0


def test_what_is_old_weighs_less() -> None:
    counts = Counts(60, whole_numbers([0, 28 * DAY_S]), np.array([600.0, 60.0]))
    assert load_quantile(counts, 0.5, 28 * DAY_S, half_life_days=70) == 10.0
    assert load_quantile(counts, 0.5, 28 * DAY_S, half_life_days=7) == 1.0


@given(st.lists(st.integers(0, 500), max_size=60))
def test_counts_add_up_whichever_way_they_are_cut(times: list[int]) -> None:
    whole = Counts.of(whole_numbers(times), 10)
    parts = [Counts.of(whole_numbers(times[::2]), 10), Counts.of(whole_numbers(times[1::2]), 10)]
    again = joined(parts, 10)
    assert again.starts_s.tolist() == whole.starts_s.tolist()
    assert again.units.tolist() == whole.units.tolist()
    minutes = whole.coarser(60)
    assert minutes.starts_s.tolist() == Counts.of(whole_numbers(times), 60).starts_s.tolist()
    assert minutes.total == len(times)
    assert whole.between(100, 200).total == sum(100 <= time < 200 for time in times)


def test_no_observation_has_the_percentile_zero() -> None:
    assert load_quantile(Counts(60, whole_numbers([]), np.empty(0)), 0.98, 0, 7) == 0.0


def test_several_at_once_are_the_same_as_one_by_one() -> None:
    draw = np.random.default_rng(3)
    values, weights = draw.integers(1, 50, 500).astype(np.float64), draw.random(500)
    shares = (0.0, 0.5, 0.9, 0.98, 1.0)
    assert weighted_quantiles(values, weights, shares) == [weighted_quantile(values, weights, q) for q in shares]
    assert weighted_quantiles(np.empty(0), np.empty(0), shares) == [0.0] * 5
