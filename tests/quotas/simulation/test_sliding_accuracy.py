"""Scenario 14 in small: the sliding counter against the exact log."""

from quotas.simulation.sliding_accuracy import measure_accuracy

REQUESTS = 30_000


def test_wrong_decisions_are_counted_and_rare_below_the_limit() -> None:
    found = measure_accuracy(REQUESTS)
    assert found.total.requests == REQUESTS
    assert sum(tally.requests for tally in found.by_pattern.values()) == REQUESTS
    assert sum(tally.requests for tally in found.by_load.values()) == REQUESTS
    assert found.by_load["up to 50 % of the limit"].wrong_share < 0.01
    assert 0 < found.total.wrong_share < 0.1


def test_the_same_seed_gives_the_same_figures() -> None:
    assert measure_accuracy(2_000, seed=1) == measure_accuracy(2_000, seed=1)
    assert measure_accuracy(2_000, seed=1) != measure_accuracy(2_000, seed=2)
