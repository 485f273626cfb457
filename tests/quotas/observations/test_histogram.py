"""Rate histograms: mergeable, and never further than 5 % from the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotas.observations.histogram import ENDS, LARGEST, Histogram, bucket_of

RATES = st.one_of(st.integers(1, 100), st.integers(1, 10**6), st.integers(1, LARGEST))
SHARES = st.fractions(0, 1, max_denominator=1_000).map(float)


def test_buckets_grow_by_five_percent_at_most() -> None:
    assert ENDS[:21] == list(range(1, 22))
    assert all(before < after <= max(before + 1, before * 1.05) for before, after in pairwise(ENDS))
    assert len(ENDS) < 800


@given(RATES)
def test_a_value_lies_in_its_bucket(rate: int) -> None:
    bucket = bucket_of(rate)
    assert rate <= ENDS[bucket]
    assert bucket == 0 or rate > ENDS[bucket - 1]


@given(st.lists(RATES, min_size=1), SHARES)
def test_a_quantile_is_never_below_the_truth_and_at_most_five_percent_above(rates: list[int], q: float) -> None:
    truth = sorted(rates)[max(0, ceil(q * len(rates)) - 1)]
    answer = Histogram.of(rates).quantile(q)
    assert truth <= answer
    assert 20 * answer <= 21 * truth


@given(st.lists(RATES), st.lists(RATES), st.lists(RATES))
def test_histograms_add_up_in_any_order(a: list[int], b: list[int], c: list[int]) -> None:
    x, y, z = Histogram.of(a), Histogram.of(b), Histogram.of(c)
    assert (x + y) + z == z + (y + x) == Histogram.of(a + b + c)
    assert (x + y).total == len(a) + len(b)


@given(st.lists(RATES), SHARES, SHARES)
def test_a_higher_share_is_no_lower_rate(rates: list[int], p: float, q: float) -> None:
    histogram, low, high = Histogram.of(rates), min(p, q), max(p, q)
    assert histogram.quantile(low) <= histogram.quantile(high)
    assert histogram.load_quantile(low) <= histogram.load_quantile(high)


@given(st.lists(RATES, min_size=1), SHARES)
def test_requests_see_rates_at_least_as_high_as_windows_do(rates: list[int], q: float) -> None:
    histogram = Histogram.of(rates)
    assert histogram.load_quantile(q) >= histogram.quantile(q)


@given(st.lists(RATES))
def test_a_packed_histogram_comes_back(rates: list[int]) -> None:
    histogram = Histogram.of(rates)
    assert Histogram.unpack(*histogram.pack()) == histogram


@given(st.lists(st.integers(1, 20)))
def test_small_numbers_are_counted_exactly(rates: list[int]) -> None:
    assert Histogram.of(rates).counts == Counter(bucket_of(rate) for rate in rates)
    assert len({bucket_of(rate) for rate in rates}) == len(set(rates))


def test_nothing_has_no_rate() -> None:
    assert Histogram().quantile(0.99) == 0
    assert Histogram().total == 0


@pytest.mark.parametrize("value", [0, -1, LARGEST + 1])
def test_what_is_no_rate_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match="must be from 1 to 2\\^53"):
        bucket_of(value)


@pytest.mark.parametrize("q", [-0.1, 1.1])
def test_what_is_no_share_is_refused(q: float) -> None:
    with pytest.raises(ValueError, match="not a share"):
        Histogram.of([1]).quantile(q)


@pytest.mark.parametrize("q", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize(
    "draw",
    [
        lambda random: random.uniform(1_000, 90_000, 50_000),
        lambda random: random.exponential(20_000, 50_000),
        lambda random: random.lognormal(9, 0.7, 50_000),
    ],
    ids=["uniform", "exponential", "lognormal"],
)
def test_an_interpolated_quantile_is_that_of_the_values(draw: Callable[[np.random.Generator], Any], q: float) -> None:
    values = np.ceil(draw(np.random.default_rng(7))).astype(int)
    histogram = Histogram.of(values.tolist())
    true = float(np.quantile(values, q))
    assert histogram.interpolated(q) == pytest.approx(true, rel=0.01)
    assert histogram.quantile(q) >= true * 0.999


def test_an_interpolated_quantile_stays_within_its_bucket() -> None:
    histogram = Histogram.of([1_000] * 10)
    low, high = ENDS[bucket_of(1_000) - 1] + 1, ENDS[bucket_of(1_000)]
    assert [histogram.interpolated(q) for q in (0, 1)] == pytest.approx([low, high])
    assert Histogram.of([3, 3, 4]).interpolated(0.5) == 3
    assert Histogram().interpolated(0.5) == 0
