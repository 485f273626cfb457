"""The algorithm, its reason and its price."""

import pytest

from quotas.calibration.advice import LOG_ENTRY_BYTES, RECORD_BYTES, Facts, advise
from quotas.calibration.burst import Point
from quotas.policies.endpoint import Hints


@pytest.mark.parametrize(
    ("hints", "facts", "algorithm", "word"),
    [
        (Hints(), Facts(Point(10, 200), 50), "token_bucket", "at the measured rate"),
        (Hints(), Facts(Point(100, 20), 50), "token_bucket", "small bucket"),
        (Hints(), Facts(Point(0.2, 1), 50), "token_bucket", "keeps its pace"),
        (Hints(bursty=True), Facts(Point(10, 200), 10**6), "token_bucket", "after a quiet time"),
        (Hints(bursty=False), Facts(Point(10, 200), 10), "leaky_bucket", "few clients"),
        (Hints(bursty=False, clients="many"), Facts(Point(10, 200), 10), "leaky_bucket", "better than a denial"),
        (Hints(bursty=False), Facts(Point(10, 1), 10), "gcra", "evenly"),
        (Hints(exact=True), Facts(Point(1, 10), 1_000), "sliding_log", "must be exact"),
        (Hints(exact=True), Facts(Point(500, 10), 10), "sliding_counter", "too large"),
        (Hints(exact=True), Facts(Point(100, 10), 10**6), "sliding_counter", "too large"),
    ],
)
def test_it_advises_with_a_reason(hints: Hints, facts: Facts, algorithm: str, word: str) -> None:
    advice = advise(hints, facts)
    assert advice.algorithm == algorithm
    assert word in advice.reason


def test_a_log_costs_its_entries_and_a_bucket_does_not() -> None:
    facts = Facts(Point(1, 10), 1_000)
    assert advise(Hints(exact=True), facts).memory_bytes == 1_000 * (RECORD_BYTES + 70 * LOG_ENTRY_BYTES)
    assert advise(Hints(), facts).memory_bytes == 1_000 * RECORD_BYTES
