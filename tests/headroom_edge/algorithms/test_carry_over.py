"""What happens to the units in use when parameters change."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from headroom_edge.algorithms import Concurrency, FixedWindow, LeakyBucket, TokenBucket
from headroom_edge.algorithms.base import SECOND_US, Algorithm, carry_over
from tests.headroom_edge.algorithms.strategies import (
    START_US,
    Step,
    counters,
    drive,
    fixed_windows,
    forward,
    logs,
    meters,
    token_buckets,
)

PAIRS = [token_buckets, meters, fixed_windows, logs, counters]
pairs: st.SearchStrategy[tuple[Algorithm, Algorithm]] = st.one_of([st.tuples(kind, kind) for kind in PAIRS])


def rounding(algorithm: Algorithm) -> Fraction:
    """State is rounded up to whole units or, in a bucket, to whole microseconds."""
    compiled = algorithm.compiled()
    return 1 + (Fraction(compiled["Q"], compiled["P"]) if "P" in compiled else Fraction(0))


@given(pairs, forward)
def test_keep_leaves_used_units_used(pair: tuple[Algorithm, Algorithm], steps: list[Step]) -> None:
    old, new = pair
    for seen in drive(old, steps):
        if seen.after is not None:
            used = Fraction(old.used(seen.after, seen.now_us))
            state = carry_over(old, new, seen.after, seen.now_us, "keep")
            left = Fraction(new.capacity) - min(used, Fraction(new.capacity))
            found = new.level(state, seen.now_us).remaining
            assert left - rounding(new) < found <= left


@given(pairs, forward)
def test_proportional_leaves_the_used_share_used(pair: tuple[Algorithm, Algorithm], steps: list[Step]) -> None:
    old, new = pair
    for seen in drive(old, steps):
        if seen.after is not None:
            share = min(1.0, old.used(seen.after, seen.now_us) / old.capacity)
            state = carry_over(old, new, seen.after, seen.now_us, "proportional")
            left = new.capacity * (1 - share)
            assert left - rounding(new) - 1e-6 < new.level(state, seen.now_us).remaining < left + 1e-6


@given(pairs, forward)
def test_reset_starts_full(pair: tuple[Algorithm, Algorithm], steps: list[Step]) -> None:
    for seen in drive(pair[0], steps):
        if seen.after is not None:
            assert carry_over(*pair, seen.after, seen.now_us, "reset") is None


@given(st.one_of(PAIRS), forward)
def test_keep_with_the_same_parameters_never_gives_units_back(algorithm: Algorithm, steps: list[Step]) -> None:
    for seen in drive(algorithm, steps):
        if seen.after is not None:
            state = carry_over(algorithm, algorithm, seen.after, seen.now_us, "keep")
            assert algorithm.level(state, seen.now_us).remaining <= seen.verdict.remaining


def test_another_algorithm_starts_full() -> None:
    old, new = FixedWindow(5, SECOND_US), TokenBucket(5, SECOND_US, 5)
    assert carry_over(old, new, (START_US // SECOND_US, 5), START_US, "keep") is None


def test_the_slots_of_a_leaky_bucket_are_promised() -> None:
    old, new = LeakyBucket(3, SECOND_US, 9), LeakyBucket(300, SECOND_US, 900)
    assert carry_over(old, new, (START_US + 77, 1), START_US, "keep") == (START_US + 78, 0)
    assert carry_over(old, new, (START_US + 77, 0), START_US, "proportional") == (START_US + 77, 0)


def test_holders_are_in_flight_whatever_the_parameters_say() -> None:
    old, new = Concurrency(5, SECOND_US), Concurrency(2, 9 * SECOND_US)
    for mode in ("keep", "proportional", "reset"):
        assert carry_over(old, new, (START_US + 5,), START_US, mode) == (START_US + 5,)


def test_a_raised_rate_does_not_lock_out_and_a_lowered_one_does_not_forgive() -> None:
    fast, slow = TokenBucket(10, SECOND_US, 10), TokenBucket(1, SECOND_US, 10)
    all_used = fast.decide(None, START_US, 10).charged
    assert slow.level(carry_over(fast, slow, all_used, START_US, "keep"), START_US).remaining == 0
    all_used = slow.decide(None, START_US, 10).charged
    state = carry_over(slow, fast, all_used, START_US, "keep")
    assert fast.level(state, START_US + SECOND_US).remaining == 10
