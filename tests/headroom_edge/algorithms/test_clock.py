"""Steps of the clock: nobody gets more than the rate allows, nobody is locked out."""

from fractions import Fraction

import pytest
from hypothesis import given

from headroom_edge.algorithms import ALGORITHMS, CalendarQuota, FixedWindow, SlidingCounter, SlidingLog, TokenBucket
from headroom_edge.algorithms.base import SECOND_US, State
from headroom_edge.algorithms.bucket import Gcra, LeakyBucket
from tests.headroom_edge.algorithms.strategies import START_US, Step, buckets, drive, jumping

HOUR_US = 3_600 * SECOND_US
Bucket = TokenBucket | Gcra | LeakyBucket


@given(buckets, jumping)
def test_a_bucket_admits_its_burst_and_the_rate_times_the_clocks_forward_travel(
    bucket: Bucket, steps: list[Step]
) -> None:
    admitted, travel_us, last_us = 0, 0, None
    for seen in drive(bucket, steps):
        travel_us += max(0, seen.now_us - last_us) if last_us is not None else 0
        last_us = seen.now_us
        admitted += seen.cost * seen.verdict.admitted
        ahead = Fraction(bucket.max_wait_us * bucket.rate, bucket.per_us)  # charged now, due later
        assert admitted <= bucket.size + Fraction(travel_us * bucket.rate, bucket.per_us) + ahead


@given(buckets, jumping)
def test_a_bucket_never_makes_anybody_wait_longer_than_a_full_refill(bucket: Bucket, steps: list[Step]) -> None:
    refill_us = -(-bucket.size * bucket.per_us // bucket.rate) + 1
    for seen in drive(bucket, steps):
        assert seen.verdict.retry_us <= refill_us


def test_a_window_one_ahead_of_the_clock_stays_the_current_one() -> None:
    window = FixedWindow(5, 60 * SECOND_US)
    index = START_US // window.window_us
    outcome = window.decide((index, 5), START_US - 1, 1)
    assert not outcome.verdict.admitted
    assert outcome.kept == (index, 5)
    assert outcome.verdict.retry_us == 60 * SECOND_US + 1


def test_a_window_further_ahead_hands_its_count_to_the_current_one_even_if_it_denies() -> None:
    window = FixedWindow(5, 60 * SECOND_US)
    index = START_US // window.window_us
    outcome = window.decide((index, 5), START_US - HOUR_US, 1)
    assert not outcome.verdict.admitted
    assert outcome.kept == (index - 60, 5)


def test_the_counter_stands_at_the_start_of_a_window_that_is_ahead() -> None:
    counter = SlidingCounter(10, 60 * SECOND_US)
    index = START_US // counter.window_us
    outcome = counter.decide((index, 3, 6), START_US - 10, 1)
    assert outcome.charged == (index, 4, 6)
    assert outcome.verdict.remaining == 0
    assert counter.decide((index, 3, 6), START_US - HOUR_US, 9).kept == (index - 60, 3, 6)


def test_the_clock_of_a_log_stands_still_at_its_newest_entry() -> None:
    log = SlidingLog(3, 60 * SECOND_US)
    outcome = log.decide((START_US, START_US), START_US - 5, 1)
    assert outcome.charged == (START_US, START_US, START_US)
    full = log.decide(outcome.charged, START_US - 5, 1)
    assert full.verdict.retry_us == 60 * SECOND_US + 5
    assert full.kept == outcome.charged


def test_a_log_far_ahead_moves_to_now_even_if_it_denies() -> None:
    log = SlidingLog(2, 60 * SECOND_US)
    back_us = START_US - HOUR_US
    outcome = log.decide((START_US, START_US), back_us, 1)
    assert not outcome.verdict.admitted
    assert outcome.kept == (back_us, back_us)


def test_a_calendar_period_ahead_stays_and_one_further_ahead_hands_over() -> None:
    starts = (0, 100, 200, 300, 400)
    quota = CalendarQuota(5, "day", "UTC", "", starts)
    assert quota.decide((200, 5), 150 * SECOND_US, 1).kept == (200, 5)
    assert quota.decide((200, 5), 150 * SECOND_US, 1).verdict.retry_us == 150 * SECOND_US
    assert quota.decide((300, 5), 150 * SECOND_US, 1).kept == (100, 5)


def test_past_its_last_boundary_a_calendar_goes_on_with_a_period_like_the_last() -> None:
    quota = CalendarQuota(5, "day", "UTC", "", (0, 100, 200))
    outcome = quota.decide((200, 5), 250 * SECOND_US, 1)
    assert outcome.verdict.retry_us == 50 * SECOND_US


FAR: dict[str, dict[str, object]] = {
    "token_bucket": {"rate": 4_000_000_000, "burst": 10**6},
    "gcra": {"rate": 3, "per": "1d", "burst": 50_000},
    "leaky_bucket": {"rate": 7, "per": "1h", "queue": 10**6},
    "fixed_window": {"limit": 2**52, "window": "1s"},
    "sliding_counter": {"limit": 52_000, "window": "1d"},
}


@pytest.mark.parametrize("name", FAR)
def test_numbers_stay_below_two_to_the_53_in_the_year_2100(name: str) -> None:
    algorithm = ALGORITHMS[name].parse(dict(FAR[name]))
    now_us, state = 4_102_444_800 * SECOND_US, None
    for cost in (algorithm.capacity, 1, algorithm.capacity):
        outcome = algorithm.decide(state, now_us, cost)
        state = outcome.charged if outcome.verdict.admitted else outcome.kept
        verdict = outcome.verdict
        numbers: State = (*(state or ()), verdict.remaining, verdict.reset_us, verdict.retry_us, verdict.wait_us)
        assert max(numbers) < 2**53
        now_us += 1
