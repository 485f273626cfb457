"""Recorded counts replayed: what is asked for stays the same, and a limit denies as the reference model does."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headroom_edge.algorithms import FixedWindow, TokenBucket
from headroom_edge.algorithms.base import SECOND_US
from quotas.calibration.counts import Counts
from quotas.calibration.forecast import arrivals_of, replayed

STEPS = st.lists(st.tuples(st.integers(0, 300), st.integers(1, 40)), min_size=1, unique_by=lambda one: one[0])


def counts(steps: list[tuple[int, int]], step_s: int = 1) -> Counts:
    ordered = sorted(steps)
    starts = np.array([start * step_s for start, _ in ordered], np.int64)
    return Counts(step_s, starts, np.array([units for _, units in ordered], np.float64))


@given(STEPS, st.sampled_from([1, 10, 60]))
def test_arrivals_are_the_same_load_in_the_same_steps(steps: list[tuple[int, int]], step_s: int) -> None:
    given_counts = counts(steps, step_s)
    batch = arrivals_of(given_counts)
    back = Counts.of(batch.times_us // SECOND_US, step_s, batch.costs)
    assert (np.diff(batch.times_us) >= 0).all()
    assert back.starts_s.tolist() == given_counts.starts_s.tolist()
    assert back.units.tolist() == given_counts.units.tolist()


@given(STEPS, st.integers(1, 30), st.integers(1, 60))
def test_it_denies_as_the_reference_model(steps: list[tuple[int, int]], rate: int, burst: int) -> None:
    bucket = TokenBucket(rate, SECOND_US, burst)
    batch, state, denied = arrivals_of(counts(steps), max(1, burst // 4)), None, 0
    for now_us, cost in zip(batch.times_us.tolist(), batch.costs.tolist(), strict=True):
        outcome = bucket.decide(state, now_us, cost)
        denied += 0 if outcome.verdict.admitted else cost
        state = outcome.charged if outcome.verdict.admitted else outcome.kept
    assert replayed(counts(steps), bucket, [0, 400]).denied.tolist() == [denied]


def test_weeks_are_told_apart() -> None:
    window = FixedWindow(5, 60 * SECOND_US)
    found = replayed(counts([(0, 8), (1, 5), (2, 9)], 60), window, [0, 60, 180])
    assert found.units.tolist() == [8, 14]
    assert found.denied.tolist() == [3, 4]
    assert found.denied_share == 7 / 22


def test_a_last_step_that_reaches_past_the_end_belongs_to_the_last_week() -> None:
    found = replayed(counts([(0, 8), (1, 90)], 60), FixedWindow(5, 10 * SECOND_US), [0, 60, 70])
    assert found.units.tolist() == [8, 90]
    assert found.denied[1] > 0
