"""Offered load: retries collapsed, throttled hours marked."""

import numpy as np

from headroom_edge.algorithms.base import SECOND_US
from quotas.calibration.counts import HOUR_S, Counts
from quotas.calibration.demand import demand_from_counts, demand_of, first_attempts
from quotas.observations.arrays import Attempts, whole_numbers


def attempts(*rows: tuple[float, int, float | None]) -> Attempts:
    """Rows of (second, subject, Retry-After or None if allowed)."""
    return Attempts(
        whole_numbers([int(second * SECOND_US) for second, _, _ in rows]),
        whole_numbers([1] * len(rows)),
        whole_numbers([subject for _, subject, _ in rows]),
        np.array([retry is not None for _, _, retry in rows], dtype=bool),
        whole_numbers([int((retry or 0) * SECOND_US) for _, _, retry in rows]),
    )


def test_a_client_that_waits_as_told_asks_once() -> None:
    assert first_attempts(attempts((0, 1, 5), (5.2, 1, None))).tolist() == [True, False]


def test_a_client_that_hammers_asks_once() -> None:
    rows = [(0.1 * n, 1, 2.0) for n in range(20)]
    assert first_attempts(attempts(*rows, (2.5, 1, None))).tolist() == [True] + [False] * 20


def test_what_comes_before_the_denial_can_be_known_is_another_request() -> None:
    assert first_attempts(attempts((0, 1, 2), (0.001, 1, 2), (0.002, 1, 2))).tolist() == [True] * 3


def test_each_denial_is_repeated_once() -> None:
    rows = attempts((0, 1, 1), (0.001, 1, 1), (1, 1, None), (1.1, 1, None), (1.2, 1, None))
    assert first_attempts(rows).tolist() == [True, True, False, False, True]


def test_another_subject_and_a_late_comer_are_new() -> None:
    assert first_attempts(attempts((0, 1, 2), (1, 2, None), (9, 1, None))).tolist() == [True] * 3


def test_an_hour_with_many_denials_is_censored() -> None:
    rows: list[tuple[float, int, float | None]] = [(n, n, None) for n in range(1_000)]
    rows += [(HOUR_S + n, n, 1.0 if n % 100 == 0 else None) for n in range(1_000)]
    demand = demand_of(attempts(*rows))
    hours = demand.minutes.starts_s // HOUR_S
    assert set(hours[demand.censored].tolist()) == {1}
    assert 0.4 < demand.censored_share < 0.6


def test_few_denials_censor_nothing() -> None:
    rows: list[tuple[float, int, float | None]] = [(n, n, 1.0 if n == 500 else None) for n in range(1_000)]
    assert not demand_of(attempts(*rows)).censored.any()


def test_counts_alone_give_the_demand_up_to_the_share_of_retries() -> None:
    allowed = Counts(60, whole_numbers([0, 60]), np.array([100.0, 100.0]))
    denied = Counts(60, whole_numbers([60, 120]), np.array([50.0, 50.0]))
    demand = demand_from_counts(allowed, denied, retry_share=0.8)
    assert demand.minutes.units.round(6).tolist() == [100.0, 110.0, 10.0]
    assert demand.censored.all()


def test_nothing_at_all_is_no_demand() -> None:
    demand = demand_of(attempts())
    assert len(demand.minutes) == 0
    assert demand.censored_share == 0.0
