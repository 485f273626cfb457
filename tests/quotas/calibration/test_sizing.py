"""From a rate and a burst to an algorithm's parameters and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headroom_edge.algorithms import Concurrency, FixedWindow, Gcra, LeakyBucket, SlidingLog, TokenBucket
from headroom_edge.algorithms.base import SECOND_US
from quotas.calibration.burst import Point
from quotas.calibration.sizing import is_sized, per_minute, point_of, resized, resized_exactly, seen_by

MINUTE_US = 60 * SECOND_US


@given(st.floats(0.01, 1e5), st.integers(1, 10_000), st.sampled_from([1, 10, 60, 3_600]))
def test_a_bucket_keeps_its_window_and_gives_at_least_what_was_asked(rate: float, burst: int, seconds: int) -> None:
    per_us = seconds * SECOND_US
    for algorithm in (TokenBucket(1, per_us, 1), Gcra(1, per_us, 1), LeakyBucket(1, per_us, 1)):
        resized_one = resized(algorithm, Point(rate, burst))
        assert isinstance(resized_one, type(algorithm))
        assert resized_one.typed_per_us == per_us
        found = point_of(resized_one)
        assert rate * (1 - 1e-9) <= found.rate <= rate * 1.011
        assert found.burst == burst


def test_a_typed_rate_keeps_its_window_unless_the_burst_is_too_large_for_it() -> None:
    found = resized_exactly(TokenBucket(1, 3_600 * SECOND_US, 1), 5.0, 10**9)
    assert found == TokenBucket(5, SECOND_US, 10**9)
    assert resized_exactly(TokenBucket(1, 10 * SECOND_US, 1), 0.55, 9).words().startswith("5.5/10s")
    assert resized_exactly(TokenBucket(1, 10 * SECOND_US, 1), 1.5, 9) == TokenBucket(15, 10 * SECOND_US, 9)


def test_a_window_holds_burst_and_rate_together() -> None:
    window = FixedWindow(1, MINUTE_US)
    wanted = seen_by(window, Point(2.0, 30))
    assert wanted.burst == 30 + 2 * 60
    assert resized(window, wanted) == FixedWindow(150, MINUTE_US)
    assert per_minute(FixedWindow(150, MINUTE_US)) == 150
    assert per_minute(TokenBucket(2, SECOND_US, 30)) == 150


def test_a_log_is_never_longer_than_it_may_be() -> None:
    found = resized(SlidingLog(5, SECOND_US), Point(1e6, 10**6))
    assert point_of(found).burst == 10_000


def test_what_has_no_rate_is_left_alone() -> None:
    assert not is_sized(Concurrency.parse({"limit": 3, "hold": "1s"}))
    with pytest.raises(ValueError, match="no rate"):
        point_of(Concurrency.parse({"limit": 3, "hold": "1s"}))
