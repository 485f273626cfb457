"""What an answer promises: when to come back, when there is more, and that a record may then be forgotten."""

from hypothesis import given

from headroom_edge.algorithms import Concurrency
from headroom_edge.algorithms.base import Algorithm
from tests.headroom_edge.algorithms.strategies import Step, drive, everything, forward, jumping, span_us, with_retry


@given(with_retry, forward)
def test_retry_is_the_first_microsecond_at_which_the_request_passes(algorithm: Algorithm, steps: list[Step]) -> None:
    for seen in drive(algorithm, steps):
        if not seen.verdict.admitted and seen.verdict.retry_us >= 0:
            then_us = seen.now_us + seen.verdict.retry_us
            assert algorithm.decide(seen.after, then_us, seen.cost).verdict.admitted
            assert not algorithm.decide(seen.after, then_us - 1, seen.cost).verdict.admitted


@given(with_retry, jumping)
def test_retry_is_right_after_a_step_of_the_clock_too(algorithm: Algorithm, steps: list[Step]) -> None:
    for seen in drive(algorithm, steps):
        if not seen.verdict.admitted and seen.verdict.retry_us >= 0:
            then_us = seen.now_us + seen.verdict.retry_us
            assert algorithm.decide(seen.after, then_us, seen.cost).verdict.admitted


@given(everything, jumping)
def test_only_a_cost_above_the_capacity_never_passes(algorithm: Algorithm, steps: list[Step]) -> None:
    for seen in drive(algorithm, steps):
        never = seen.cost > algorithm.capacity and not isinstance(algorithm, Concurrency)
        assert (seen.verdict.retry_us == -1) == never
        assert seen.verdict.admitted == (seen.verdict.retry_us == 0)


@given(with_retry, forward)
def test_reset_is_the_first_microsecond_at_which_more_is_left(algorithm: Algorithm, steps: list[Step]) -> None:
    for seen in drive(algorithm, steps):
        reset_us, left = seen.verdict.reset_us, seen.verdict.remaining
        assert (reset_us == 0) == (left == algorithm.capacity)
        if reset_us:
            assert algorithm.level(seen.after, seen.now_us + reset_us).remaining > left
            assert algorithm.level(seen.after, seen.now_us + reset_us - 1).remaining <= left


@given(everything, jumping)
def test_the_level_is_what_the_answer_told(algorithm: Algorithm, steps: list[Step]) -> None:
    for seen in drive(algorithm, steps):
        level = algorithm.level(seen.after, seen.now_us)
        assert (level.remaining, level.reset_us) == (seen.verdict.remaining, seen.verdict.reset_us)


@given(everything, jumping)
def test_when_a_record_expires_it_is_full_anyway(algorithm: Algorithm, steps: list[Step]) -> None:
    for seen in drive(algorithm, steps):
        if seen.verdict.admitted:
            then_us = seen.now_us + algorithm.ttl_ms() * 1_000
            assert algorithm.level(seen.after, then_us).remaining == algorithm.capacity


@given(everything, forward)
def test_a_denial_changes_nothing_while_the_clock_runs_forward(algorithm: Algorithm, steps: list[Step]) -> None:
    for seen in drive(algorithm, steps):
        if not seen.verdict.admitted:
            assert seen.after == seen.before


@given(everything, jumping)
def test_whatever_the_clock_did_all_is_there_again_after_three_windows(algorithm: Algorithm, steps: list[Step]) -> None:
    for seen in drive(algorithm, steps):
        if seen.cost <= algorithm.capacity:
            then_us = seen.now_us + 3 * span_us(algorithm)
            assert algorithm.decide(seen.after, then_us, seen.cost).verdict.admitted


@given(everything, jumping)
def test_an_early_refund_gives_back_no_more_than_was_charged(algorithm: Algorithm, steps: list[Step]) -> None:
    for seen in drive(algorithm, steps):
        if seen.verdict.admitted and seen.after is not None:
            refunded = algorithm.refund(seen.after, seen.now_us, seen.cost, seen.now_us, seen.after[0])
            if refunded is not None:
                before = algorithm.level(seen.before, seen.now_us)
                assert algorithm.level(refunded, seen.now_us).remaining == before.remaining
