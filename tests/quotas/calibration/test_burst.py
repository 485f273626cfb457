"""b(r) against brute force: exact from arrivals, bracketed from counts."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headroom_edge.algorithms import TokenBucket
from headroom_edge.algorithms.base import SECOND_US, State
from quotas.calibration.burst import Rate, backlogs, bracket, burst_at, curve, decisive, settle
from quotas.calibration.counts import Counts
from quotas.observations.arrays import whole_numbers
from tests.sweeps import examples

START_US = 1_772_409_600 * SECOND_US

rates = st.builds(
    Rate, st.sampled_from((1, 2, 3, 7, 300, 3_000, 29_999)), st.sampled_from((7_000, SECOND_US, 60 * SECOND_US))
)
gaps = st.sampled_from((0, 0, 1, 333, 40_000, 333_333, SECOND_US, 7 * SECOND_US, 90 * SECOND_US))
arrivals = st.lists(st.tuples(gaps, st.integers(1, 5)), min_size=1, max_size=40)


def times_and_costs(steps: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [START_US + sum(gap for gap, _ in steps[: n + 1]) for n in range(len(steps))], [cost for _, cost in steps]


def denials(times: list[int], costs: list[int], rate: Rate, burst: int) -> int:
    bucket, state, count = TokenBucket(rate.units, rate.per_us, burst), None, 0
    for now_us, cost in zip(times, costs, strict=True):
        outcome = bucket.decide(state, now_us, cost)
        state_after: State | None = outcome.charged if outcome.verdict.admitted else outcome.kept
        state, count = state_after, count + (not outcome.verdict.admitted)
    return count


@settings(max_examples=examples(300))
@given(arrivals, rates)
def test_the_burst_is_the_smallest_bucket_that_denies_nothing(steps: list[tuple[int, int]], rate: Rate) -> None:
    times, costs = times_and_costs(steps)
    burst = burst_at(whole_numbers(times), whole_numbers(costs), rate)
    assert denials(times, costs, rate, burst) == 0
    assert burst == 1 or denials(times, costs, rate, burst - 1) > 0


@given(arrivals, rates)
def test_every_backlog_equals_the_recursion_in_fractions(steps: list[tuple[int, int]], rate: Rate) -> None:
    times, costs = times_and_costs(steps)
    found = backlogs(whole_numbers(times), whole_numbers(costs), rate)
    level, last = Fraction(0), times[0]
    for now_us, cost, value in zip(times, costs, found.values.tolist(), strict=True):
        level = max(Fraction(0), level - Fraction(rate.units * (now_us - last), rate.per_us)) + cost
        last = now_us
        assert Fraction(value, found.scale) == level


@given(arrivals, rates, st.sampled_from((0.0, 0.01, 0.1, 0.5)))
def test_no_more_than_the_given_share_finds_the_bucket_empty(
    steps: list[tuple[int, int]], rate: Rate, epsilon: float
) -> None:
    times, costs = times_and_costs(steps)
    burst = burst_at(whole_numbers(times), whole_numbers(costs), rate, epsilon)
    big_enough = [(time, cost) for time, cost in zip(times, costs, strict=True) if cost <= burst]
    assert denials([t for t, _ in big_enough], [c for _, c in big_enough], rate, burst) <= epsilon * len(times)


@settings(max_examples=examples(300))
@given(arrivals, rates, st.sampled_from((1, 10, 60)))
def test_counts_bracket_the_burst_of_the_arrivals(steps: list[tuple[int, int]], rate: Rate, step_s: int) -> None:
    times, costs = times_and_costs(steps)
    burst = burst_at(whole_numbers(times), whole_numbers(costs), rate)
    counts = Counts.of(whole_numbers(times) // SECOND_US, step_s, whole_numbers(costs))
    found = bracket(counts, rate.units * SECOND_US / rate.per_us)
    assert found.low <= burst <= found.high


def seconds_of(steps: list[tuple[int, int]]) -> Counts:
    times, costs = times_and_costs(steps)
    return Counts.of(whole_numbers(times) // SECOND_US, 1, whole_numbers(costs))


@given(arrivals, st.floats(0.01, 50))
def test_a_burst_beyond_a_minute_of_the_rate_raises_the_rate(steps: list[tuple[int, int]], rate: float) -> None:
    point = settle(seconds_of(steps), rate, burst_seconds=60)
    assert point.rate >= rate * (1 - 1e-9)
    assert point.burst <= max(1, 60 * point.rate)


@given(arrivals, st.floats(0.01, 50))
def test_no_other_rate_lets_clearly_less_through_in_a_minute(steps: list[tuple[int, int]], rate: float) -> None:
    counts = seconds_of(steps)
    point = settle(counts, rate, burst_seconds=60)
    others = curve(counts, np.geomspace(rate, 100 * rate, 60))
    allowed = [other.burst + 60 * other.rate for other in others if other.burst <= max(1, 60 * other.rate)]
    assert point.burst + 60 * point.rate <= min(allowed, default=np.inf) * 1.1 + 1


@settings(max_examples=examples(300))
@given(arrivals, st.floats(0.01, 20), st.floats(1, 30), st.sampled_from((0.0, 0.001, 0.05)), st.sampled_from((1, 10)))
def test_the_decisive_steps_alone_give_the_same_burst(
    steps: list[tuple[int, int]], rate: float, factor: float, epsilon: float, step_s: int
) -> None:
    times, costs = times_and_costs(steps)
    counts = Counts.of(whole_numbers(times) // SECOND_US, step_s, whole_numbers(costs))
    few = decisive(counts, rate, epsilon)
    found = bracket(few, rate * factor, epsilon, counts.total)
    assert found == bracket(counts, rate * factor, epsilon)


def test_most_steps_of_steady_traffic_are_not_decisive() -> None:
    draw = np.random.default_rng(1)
    counts = Counts(10, np.arange(20_000) * 10, draw.poisson(20, 20_000).astype(np.float64))
    assert len(decisive(counts, 3.0, 0.001)) < 2_000


def test_the_curve_falls_as_the_rate_rises() -> None:
    counts = Counts(1, whole_numbers([0, 1, 2, 60, 61]), np.array([9.0, 9.0, 9.0, 30.0, 1.0]))
    points = curve(counts, np.array([0.1, 1.0, 5.0, 30.0]))
    assert [point.burst for point in points] == sorted((point.burst for point in points), reverse=True)


def test_nothing_asked_needs_the_least_bucket() -> None:
    empty = Counts(1, whole_numbers([]), np.empty(0))
    assert burst_at(whole_numbers([]), whole_numbers([]), Rate(1)) == 1
    assert bracket(empty, 1.0).high == 1
    assert settle(empty, 0.5, 60).burst == 1


def test_a_span_that_cannot_be_counted_exactly_is_refused() -> None:
    with pytest.raises(ValueError, match="split them"):
        backlogs(whole_numbers([0, 4_000_000_000_000_000]), whole_numbers([1, 1]), Rate(29_999, 7_000))
