"""Parameters, arrivals and clocks for the tests of the reference models."""

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from headroom_edge.algorithms import (
    Concurrency,
    FixedWindow,
    Gcra,
    LeakyBucket,
    SlidingCounter,
    SlidingLog,
    TokenBucket,
)
from headroom_edge.algorithms.base import SECOND_US, Algorithm, State, Verdict

START_US = 1_772_409_600 * SECOND_US

rates = st.sampled_from((1, 2, 3, 7, 10, 300, 3_000, 30_000))
spans_us = st.sampled_from((1_000, 7_000, SECOND_US, 60 * SECOND_US))
sizes = st.integers(1, 12)

token_buckets = st.builds(TokenBucket, rates, spans_us, sizes, st.sampled_from((0, 0, 1_000, 250_000)))
meters = st.builds(Gcra, rates, spans_us, sizes)
leaky_buckets = st.builds(LeakyBucket, rates, spans_us, sizes)
buckets = st.one_of(token_buckets, meters, leaky_buckets)
fixed_windows = st.builds(FixedWindow, sizes, spans_us)
logs = st.builds(SlidingLog, sizes, spans_us)
counters = st.builds(SlidingCounter, sizes, spans_us)
slots = st.builds(Concurrency, sizes, spans_us)

with_retry: st.SearchStrategy[Algorithm] = st.one_of(buckets, fixed_windows, logs, counters)
everything: st.SearchStrategy[Algorithm] = st.one_of(with_retry, slots)

costs = st.integers(1, 14)


def span_us(algorithm: Algorithm) -> int:
    """One window, one hold, or about one refill."""
    match algorithm:
        case FixedWindow() | SlidingLog() | SlidingCounter():
            return algorithm.window_us
        case Concurrency():
            return algorithm.hold_us
    return max(1, (algorithm.ttl_ms() - 1_000) * 1_000)


@dataclass(frozen=True, slots=True)
class Step:
    """A request, `share` thousandths of the algorithm's span after (or, negative, before) the one before."""

    share: int
    extra_us: int
    cost: int


forward = st.lists(st.builds(Step, st.sampled_from((0, 0, 0, 1, 10, 100, 400, 1_000)), st.integers(0, 3), costs))
jumping = st.lists(
    st.builds(
        Step, st.sampled_from((0, 0, 1, 50, 400, 1_000, 60_000, -1, -400, -1_000, -60_000)), st.integers(-3, 3), costs
    )
)


@dataclass(frozen=True, slots=True)
class Seen:
    now_us: int
    cost: int
    before: State | None
    verdict: Verdict
    after: State | None


def drive(algorithm: Algorithm, steps: list[Step]) -> Iterator[Seen]:
    """Asks step by step, and keeps the state as the store would."""
    now_us, state, unit_us = START_US, None, span_us(algorithm)
    for step in steps:
        now_us += step.share * unit_us // 1_000 + step.extra_us
        outcome = algorithm.decide(state, now_us, step.cost)
        after = outcome.charged if outcome.verdict.admitted else outcome.kept
        yield Seen(now_us, step.cost, state, outcome.verdict, after)
        state = after
