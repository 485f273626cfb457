"""Each model against its definition, written down naively: fractions of tokens, lists of times, counts by window."""

from collections import Counter
from fractions import Fraction
from math import ceil, floor

from hypothesis import given

from headroom_edge.algorithms import (
    Concurrency,
    FixedWindow,
    Gcra,
    LeakyBucket,
    SlidingCounter,
    SlidingLog,
    TokenBucket,
)
from tests.headroom_edge.algorithms.strategies import (
    START_US,
    Step,
    counters,
    drive,
    fixed_windows,
    forward,
    leaky_buckets,
    logs,
    meters,
    slots,
    token_buckets,
)


def check_tokens(bucket: TokenBucket | Gcra, steps: list[Step]) -> None:
    interval = Fraction(bucket.per_us, bucket.rate)
    debt = bucket.max_wait_us / interval  # how far below zero the tokens may go
    tokens, last_us = Fraction(bucket.size), START_US
    for seen in drive(bucket, steps):
        tokens = min(Fraction(bucket.size), tokens + (seen.now_us - last_us) / interval)
        last_us = seen.now_us
        admitted = seen.cost <= bucket.size and tokens - seen.cost >= -debt
        assert seen.verdict.admitted == admitted
        if admitted:
            tokens -= seen.cost
            assert seen.verdict.wait_us == ceil(max(Fraction(0), -tokens) * interval)
        elif seen.cost <= bucket.size:
            assert seen.verdict.retry_us == ceil((seen.cost - debt - tokens) * interval)
        else:
            assert seen.verdict.retry_us == -1
        assert seen.verdict.remaining == max(0, floor(tokens))


@given(token_buckets, forward)
def test_a_token_bucket_counts_tokens(bucket: TokenBucket, steps: list[Step]) -> None:
    check_tokens(bucket, steps)


@given(meters, forward)
def test_a_meter_is_a_bucket_of_the_same_capacity(meter: Gcra, steps: list[Step]) -> None:
    check_tokens(meter, steps)


@given(leaky_buckets, forward)
def test_a_leaky_bucket_gives_departure_slots(bucket: LeakyBucket, steps: list[Step]) -> None:
    interval = Fraction(bucket.per_us, bucket.rate)
    free_at = Fraction(0)  # the first slot that is not taken
    for seen in drive(bucket, steps):
        wait = max(Fraction(0), free_at - seen.now_us)
        admitted = wait + seen.cost * interval <= bucket.size * interval
        assert seen.verdict.admitted == admitted
        if admitted:
            assert seen.verdict.wait_us == ceil(wait)
            free_at = max(free_at, Fraction(seen.now_us)) + seen.cost * interval


@given(fixed_windows, forward)
def test_a_fixed_window_counts_by_window(window: FixedWindow, steps: list[Step]) -> None:
    counts = Counter[int]()
    for seen in drive(window, steps):
        number = seen.now_us // window.window_us
        admitted = counts[number] + seen.cost <= window.limit
        counts[number] += seen.cost * admitted
        assert seen.verdict.admitted == admitted
        assert seen.verdict.remaining == window.limit - counts[number]


@given(logs, forward)
def test_a_log_looks_at_every_admitted_time(log: SlidingLog, steps: list[Step]) -> None:
    admitted_at: list[int] = []
    for seen in drive(log, steps):
        inside = [time for time in admitted_at if seen.now_us - log.window_us < time]
        admitted = len(inside) + seen.cost <= log.limit
        admitted_at += [seen.now_us] * (seen.cost * admitted)
        assert seen.verdict.admitted == admitted
        assert seen.verdict.remaining == log.limit - len(inside) - seen.cost * admitted


@given(counters, forward)
def test_a_counter_estimates_from_two_windows(counter: SlidingCounter, steps: list[Step]) -> None:
    counts = Counter[int]()
    for seen in drive(counter, steps):
        number, elapsed = divmod(seen.now_us, counter.window_us)
        share = 1 - Fraction(elapsed, counter.window_us)
        estimate = counts[number] + counts[number - 1] * share
        admitted = estimate + seen.cost <= counter.limit
        counts[number] += seen.cost * admitted
        assert seen.verdict.admitted == admitted
        assert seen.verdict.remaining == floor(counter.limit - estimate - seen.cost * admitted)


@given(slots, forward)
def test_concurrency_counts_who_has_not_expired(limit: Concurrency, steps: list[Step]) -> None:
    expiries: list[int] = []
    for seen in drive(limit, steps):
        expiries = [expiry for expiry in expiries if expiry > seen.now_us]
        admitted = len(expiries) < limit.limit
        expiries += [seen.now_us + limit.hold_us] * admitted
        assert seen.verdict.admitted == admitted
        assert seen.verdict.remaining == limit.limit - len(expiries)


@given(logs, forward)
def test_never_more_than_the_limit_in_any_trailing_window(log: SlidingLog, steps: list[Step]) -> None:
    admitted = [(seen.now_us, seen.cost) for seen in drive(log, steps) if seen.verdict.admitted]
    for end_us, _ in admitted:
        inside = sum(cost for time, cost in admitted if end_us - log.window_us < time <= end_us)
        assert inside <= log.limit
