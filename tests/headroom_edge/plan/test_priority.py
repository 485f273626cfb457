from __future__ import annotations

from itertools import product

import pytest

from headroom_edge.plan.priority import FILLS, PRIORITIES, highest, lowest, number_of, priority_of

TABLE = [
    # endpoint, tier, tenant, caller, and what a pool takes the request for
    ("critical", "", "", "", "critical"),
    ("critical", "", "", "sheddable", "sheddable"),
    ("critical", "high", "", "", "high"),
    ("critical", "high", "normal", "", "normal"),
    ("critical", "normal", "high", "", "normal"),
    ("high", "critical", "", "", "high"),
    ("normal", "critical", "critical", "critical", "normal"),
    ("sheddable", "critical", "high", "normal", "sheddable"),
    ("normal", "", "", "", "normal"),
    ("", "", "", "", "normal"),
]


@pytest.mark.parametrize(("endpoint", "tier", "tenant", "caller", "found"), TABLE)
def test_the_least_important_of_all_counts(endpoint: str, tier: str, tenant: str, caller: str, found: str) -> None:
    assert lowest(endpoint, tier, tenant, caller) == found
    assert lowest(lowest(endpoint, highest(tier, tenant)), caller) == found


def test_nobody_can_raise_a_priority() -> None:
    for endpoint, *others in product(PRIORITIES, ("", *PRIORITIES), ("", *PRIORITIES), ("", *PRIORITIES)):
        assert number_of(lowest(endpoint, *others)) >= number_of(endpoint)


def test_what_is_no_priority_is_none() -> None:
    assert priority_of("high") == "high"
    assert [priority_of(value) for value in ("High", "", None, 2, ["high"])] == [None] * 5
    assert highest("", None) == ""


def test_a_more_important_request_may_fill_more_of_a_pool() -> None:
    assert [FILLS[priority] for priority in PRIORITIES] == [100, 90, 75, 50]
    assert [number_of(priority) for priority in PRIORITIES] == [1, 2, 3, 4]
