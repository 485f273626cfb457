"""The day a calendar quota runs out."""

import numpy as np
import pytest

from quotas.calibration.counts import DAY_S
from quotas.calibration.run_out import RunOut, run_out

NOW = 20_000 * DAY_S
END = NOW + 20 * DAY_S


def test_even_days_run_out_when_division_says() -> None:
    found = run_out([100.0] * 28, used=500, limit=1_250, now_s=NOW, period_end_s=END)
    assert (found.earliest_s, found.expected_s, found.latest_s) == pytest.approx((NOW + 7.5 * DAY_S,) * 3)


def test_enough_is_left_for_the_whole_period() -> None:
    assert run_out([100.0] * 28, 0, 100_000, NOW, END) == RunOut(None, None, None)
    assert run_out([], 0, 10, NOW, END) == RunOut(None, None, None)
    assert run_out([100.0], 0, 10, END, END) == RunOut(None, None, None)


def test_what_is_used_up_has_run_out_now() -> None:
    assert run_out([100.0] * 28, 1_000, 1_000, NOW, END) == RunOut(NOW, NOW, NOW)


def test_quiet_weekends_are_expected_again() -> None:
    week = [100.0] * 5 + [0.0] * 2
    found = run_out(week * 4, used=0, limit=550, now_s=NOW, period_end_s=END)
    assert found.expected_s == pytest.approx(NOW + 7.5 * DAY_S)  # five days, two of silence, half a day


def test_nine_of_ten_outcomes_lie_within_the_interval() -> None:
    draw, inside, tried = np.random.default_rng(4), 0, 400
    for _ in range(tried):
        days = draw.gamma(20, 5, 28 + 40)
        found = run_out(days[:28].tolist(), 0, 1_500, NOW, NOW + 40 * DAY_S)
        truth = NOW + DAY_S * float(np.interp(1_500, np.concatenate(([0], np.cumsum(days[28:]))), np.arange(41)))
        assert found.earliest_s is not None
        assert found.latest_s is not None
        inside += found.earliest_s <= truth <= found.latest_s
    assert 0.86 <= inside / tried <= 0.98
