"""What the recorded limits refuse, second by second."""

from __future__ import annotations

import numpy as np
import pytest

from quotas.demo.enforcement import FlowLimit, LimitSpan, apply_limit
from quotas.observations.arrays import whole_numbers

DRAW = np.random.default_rng(1)


def refused(counts: list[int], *spans: LimitSpan, retries: int = 0) -> list[int]:
    asked = apply_limit(whole_numbers(counts), 100, FlowLimit("burst", spans), retries, DRAW)
    found: list[int] = asked.refused.tolist()
    return found


def test_a_second_passes_what_is_left_of_the_burst_and_the_rate() -> None:
    assert refused([34, 0, 0, 34], LimitSpan(0, 5, 20)) == [9, 0, 0, 34 - 15 - 0]


def test_steady_demand_above_the_rate_is_cut_to_the_rate() -> None:
    found = refused([3] * 60, LimitSpan(0, 2, 10))
    assert sum(found) == 60 * 3 - 60 * 2 - 10
    assert found[-1] == 1


def test_other_parameters_hold_from_their_second_on() -> None:
    assert refused([10, 10, 10, 10], LimitSpan(0, 5, 5), LimitSpan(102, 10, 5)) == [0, 5, 0, 0]


def test_what_is_refused_comes_again() -> None:
    asked = apply_limit(whole_numbers([8, 0, 0]), 100, FlowLimit("burst", (LimitSpan(0, 1, 3),)), 1, DRAW)
    assert asked.offered.tolist() == [8, 2, 0]
    assert asked.refused.tolist() == [4, 1, 0]


@pytest.mark.parametrize("keys", [1, 4])
def test_each_key_is_counted_apart_and_none_is_lost(keys: int) -> None:
    counts = DRAW.poisson(2.0, 3_000)
    held = FlowLimit("per-key", (LimitSpan(0, 0.3, 2),), keys=keys)
    asked = apply_limit(counts, 100, held, 0, DRAW)
    assert asked.offered.tolist() == counts.tolist()
    assert (asked.refused <= counts).all()
    let = int((counts - asked.refused).sum())
    assert let == pytest.approx(min(3_000 * 0.3 * keys, counts.sum()), rel=0.1)
