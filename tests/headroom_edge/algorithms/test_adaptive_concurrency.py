"""What one window does to the live limit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from headroom_edge.algorithms.adaptive_concurrency import (
    CALIBRATED,
    WINDOW_US,
    AdaptiveConcurrency,
    Live,
)
from headroom_edge.algorithms.base import SECOND_US, ParameterError, State, carry_over

START_US = 9_000_000_000 * WINDOW_US
LIMIT = AdaptiveConcurrency(5, 200, 100, 50_000, 30 * SECOND_US)
SLOWER = "service slower than its target"


@dataclass
class Windows:
    """Answers in whole windows, one after another."""

    limit: AdaptiveConcurrency = LIMIT
    state: State | None = None
    now_us: int = START_US

    def answer(self, ms: int, count: int = 20, drops: int = 0, peak: int = 100) -> Live:
        """The live limit after one window of such answers."""
        for _ in range(count):
            self.state = self.limit.sample(self.state, self.now_us, peak, ms * 1_000, "ok")
        for _ in range(drops):
            self.state = self.limit.sample(self.state, self.now_us, peak, 0, "drop")
        self.now_us += WINDOW_US
        return self.live

    @property
    def live(self) -> Live:
        return self.limit.live(self.state, self.now_us)


@pytest.mark.parametrize(
    ("ms", "count", "drops", "peak", "after"),
    [
        (50, 20, 0, 100, 105),  # on target and nearly reached: up by half of the root
        (50, 20, 0, 70, 105),
        (50, 20, 0, 69, 100),  # there was room
        (10, 20, 0, 0, 100),
        (51, 20, 0, 100, 98),  # above: down in proportion
        (100, 20, 0, 0, 50),
        (200, 20, 0, 100, 50),  # by half at most
        (200, 9, 0, 100, 100),  # too few answers to tell
        (200, 10, 0, 100, 50),
        (10, 19, 1, 100, 95),  # the service refused one of twenty
        (10, 6, 14, 100, 50),
        (10, 0, 10, 100, 50),  # it answered nothing
        (100, 15, 5, 0, 50),  # slow and refusing: the deeper cut counts
        (60, 10, 10, 0, 50),
    ],
)
def test_a_window_moves_the_live_limit(ms: int, count: int, drops: int, peak: int, after: int) -> None:
    assert Windows().answer(ms, count, drops, peak).limit == after


def test_it_stays_within_its_bounds() -> None:
    windows = Windows()
    for _ in range(10):
        lowest = windows.answer(10, 1, drops=19)
    assert lowest.limit == 5
    for _ in range(100):
        highest = windows.answer(10, peak=200)
    assert highest.limit == 200


def test_few_answers_count_once_there_are_ten() -> None:
    windows = Windows()
    assert [windows.answer(100, count=4).limit for _ in range(3)] == [100, 100, 50]


def test_few_answers_in_ten_seconds_count_for_nothing() -> None:
    windows = Windows()
    windows.answer(500, count=9)
    windows.now_us += 10 * SECOND_US
    assert windows.answer(10, count=1).limit == 100
    assert windows.answer(10, count=9).limit == 105


def test_a_window_that_is_not_over_changes_nothing() -> None:
    state = None
    for _ in range(50):
        state = LIMIT.sample(state, START_US + 5, 100, 500_000, "ok")
    assert LIMIT.live(state, START_US + WINDOW_US - 1).limit == 100
    assert LIMIT.live(state, START_US + WINDOW_US).limit == 50


def test_a_cut_that_costs_throughput_is_taken_back_and_the_target_raised() -> None:
    windows = Windows()
    counts = [40, 40, 20, 10, 5]  # nothing queues: half the slots answer half as many
    after = [windows.answer(100, count) for count in counts]
    assert [live.limit for live in after] == [50, 25, 12, 6, 100]
    assert after[-1].reason == SLOWER
    assert after[-1].target_us == 150_000
    assert windows.answer(100).reason == SLOWER


def test_a_cut_that_lowers_the_latency_stays() -> None:
    windows = Windows()
    for ms in (100, 100, 50, 50):  # the same answers in half the time: they were queueing
        windows.answer(ms, 40, peak=0)
    assert windows.answer(50, 40, peak=0).limit == 25
    assert windows.live.target_us == 50_000


def test_far_slower_answers_start_the_comparison_anew() -> None:
    """Otherwise a capacity that halves just after a small cut would pass for a slower service."""
    windows = Windows()
    windows.answer(55, 40)
    for ms in (150, 300):
        windows.answer(ms, 20)
    for ms in (100, 60, 55, 55):
        live = windows.answer(ms, 20, peak=0)
    assert live.target_us == 50_000
    assert live.reason != SLOWER


def test_half_of_the_raised_target_is_forgotten_in_ten_seconds() -> None:
    windows = Windows()
    for count in (40, 40, 20, 10, 5):
        windows.answer(100, count)
    windows.now_us += 10 * SECOND_US
    assert windows.live.target_us == pytest.approx(100_000, rel=0.01)
    windows.now_us += 200 * SECOND_US
    assert windows.live.target_us == 50_000


def test_what_the_service_refused_is_not_given_back() -> None:
    windows = Windows()
    for count in (40, 40, 20, 10):
        windows.answer(100, count)
    assert windows.answer(100, 5, drops=5).limit == 50


def test_a_clock_that_goes_back_keeps_the_window_and_by_far_starts_a_new_one() -> None:
    windows = Windows()
    windows.answer(100, 20)
    windows.now_us = START_US - WINDOW_US
    assert windows.live.limit == 100
    windows.now_us = START_US - 60 * SECOND_US
    windows.answer(10, 20)
    assert windows.live.limit == 105


def test_a_change_of_parameters_keeps_the_live_limit_within_the_new_bounds() -> None:
    windows = Windows()
    windows.answer(100)
    windows.answer(40, peak=0)
    assert windows.state
    for after, mode, live in (
        (replace(LIMIT, most=400), "keep", 50),
        (replace(LIMIT, most=400), "proportional", 100),
        (replace(LIMIT, most=40, start=20), "keep", 40),
        (replace(LIMIT, least=60), "keep", 60),
    ):
        state = carry_over(LIMIT, after, windows.state, windows.now_us, mode)
        assert after.live(state, windows.now_us).limit == live
    assert carry_over(LIMIT, replace(LIMIT, most=400), windows.state, windows.now_us, "reset") is None


def test_it_starts_half_way_unless_it_is_told_where() -> None:
    fields = {"min": 10, "max": 91, "target": CALIBRATED, "hold": "30s"}
    assert AdaptiveConcurrency.parse(dict(fields)).start == 50
    assert AdaptiveConcurrency.parse({**fields, "start": 20}).start == 20


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"min": 0}, "min"),
        ({"max": 9}, "max"),
        ({"max": 1_000_001}, "max"),
        ({"start": 9}, "start"),
        ({"start": 101}, "start"),
        ({"target": "soon"}, "target"),
        ({"target": 50}, "target"),
        ({"target": "11m"}, "target"),
        ({"target": None}, "target"),
        ({"hold": None}, "hold"),
    ],
)
def test_it_refuses_what_cannot_work_by_its_field(change: dict[str, object], field: str) -> None:
    fields = {"min": 10, "max": 100, "target": "50ms", "hold": "30s", **change}
    with pytest.raises(ParameterError) as refused:
        AdaptiveConcurrency.parse(fields)
    assert refused.value.field == field
