"""The market opens: a pool sheds from the bottom, and is never exceeded. Every call says what time it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headroom_edge import keys
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.plan.priority import PRIORITIES
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit, Policy
from tests.headroom_edge.lua.market import (
    BURST,
    CAPACITY,
    CRITICAL_ABOVE_CAPACITY,
    OPENING,
    OPENS_S,
    SECOND_US,
    Arrival,
    Rates,
    arrivals,
    by_class,
    excess,
    worst_window,
)
from tests.headroom_edge.lua.world import NOW_US, TENANT, World, tier_policy

AT_ONCE = 2_000
ENDPOINTS = {priority: f"{priority}:call" for priority in PRIORITIES}


def backend(reserve: int = 0) -> Policy:
    pool = Limit("backend", Pool(CAPACITY, SECOND_US, BURST, reserve), Subject.parse("tenant"))
    return Policy("backend", "*", (pool,))


@pytest.fixture
def market(world: World) -> World:
    world.endpoints = tuple(ENDPOINTS.values())
    world.priorities = {endpoint: priority for priority, endpoint in ENDPOINTS.items()}
    return world


def admitted(world: World, rates: Rates) -> tuple[list[Arrival], list[Arrival]]:
    """Everybody who asks, and who is let through."""
    asked, prefix = arrivals(rates), keys.shard_prefix(keys.shard_of(TENANT))
    replies = []
    for start in range(0, len(asked), AT_ONCE):
        with world.client.pipeline(transaction=False) as pipe:
            for arrival in asked[start : start + AT_ONCE]:
                now_us = NOW_US + arrival.at_us
                pipe.fcall("hs_check", 1, prefix, now_us, TENANT, ENDPOINTS[arrival.priority], 1)
            replies += pipe.execute()
    return asked, [arrival for arrival, reply in zip(asked, replies, strict=True) if reply[0] == 1]


def test_every_critical_request_passes_and_the_lowest_are_shed_first(market: World) -> None:
    market.configure(backend())
    asked, passed = admitted(market, OPENING)
    wanted, got = by_class(asked, OPENS_S), by_class(passed, OPENS_S)
    assert (got["critical"], wanted["critical"]) == (1_568, 1_568)
    shares = [got[priority] / wanted[priority] for priority in PRIORITIES]
    assert shares == sorted(shares, reverse=True)
    # The rest of what the backend takes goes to the next class; below it, only the first moment's burst.
    assert got["high"] / wanted["high"] > 0.6
    assert got["normal"] + got["sheddable"] < BURST
    assert worst_window(arrival.at_us for arrival in passed) == 1_158
    assert excess(arrival.at_us for arrival in passed) <= 0


def test_before_the_opening_nobody_is_shed(market: World) -> None:
    market.configure(backend())
    asked, passed = admitted(market, OPENING)
    is_early: Callable[[Arrival], bool] = lambda arrival: arrival.at_us < OPENS_S * SECOND_US  # noqa: E731
    assert list(filter(is_early, passed)) == list(filter(is_early, asked))


def test_critical_requests_alone_above_capacity_starve_the_others(market: World) -> None:
    market.configure(backend())
    asked, passed = admitted(market, CRITICAL_ABOVE_CAPACITY)
    wanted, got = by_class(asked, OPENS_S + 1), by_class(passed, OPENS_S + 1)
    assert got["normal"] == 0
    assert wanted["critical"] > got["critical"] > 0.95 * 3 * CAPACITY
    assert excess(arrival.at_us for arrival in passed) <= 0


def test_an_assured_share_protects_a_class(market: World) -> None:
    """The same, with 200/s that are the normal requests' own. The reserve is as large as their burst."""
    own = Limit("own", Borrowing(200, SECOND_US, 50, None, None, 0, "backend"), Subject.parse("tenant"))
    market.configure(backend(reserve=50), tier_policy(own, endpoint=ENDPOINTS["normal"]))
    asked, passed = admitted(market, CRITICAL_ABOVE_CAPACITY)
    wanted, got = by_class(asked, OPENS_S + 1), by_class(passed, OPENS_S + 1)
    assert wanted["normal"] > 3 * 350
    assert 3 * 200 - 5 <= got["normal"] <= 3 * 200 + 50
    assert got["critical"] > 0.95 * 3 * (CAPACITY - 200)
    assert excess(arrival.at_us for arrival in passed) <= 0
