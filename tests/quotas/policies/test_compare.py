from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from quotas.policies.compare import NOT_ENFORCED, Cut, Plan, cuts, same_enforced
from quotas.policies.layers import PolicyIndex
from quotas.policies.spec import Endpoint, Limit, Policy
from tests.quotas.policies.worlds import NOW_US, global_policy, limit, tier_policy

QUERY, PAY = "search:query", "payments:create"


def plan(*policies: Policy, costs: Mapping[str, int] | None = None) -> Plan:
    """Of tier pro."""
    endpoints = {name: Endpoint(n, name, (costs or {}).get(name, 1)) for n, name in enumerate((QUERY, PAY), 1)}
    layers = PolicyIndex.of(policies, ()).of_tier("pro")
    return Plan.of_layers(layers, NOW_US, endpoints)


def everywhere(*limits: Limit) -> Plan:
    return plan(tier_policy("*", *limits))


def bucket(rate: int, burst: int, **fields: Any) -> Limit:
    return limit("burst", rate=rate, burst=burst, **fields)


def pool(rate: int, burst: int, reserve: int = 0) -> Limit:
    return limit("burst", "pool", rate=rate, burst=burst, reserve=reserve)


def adaptive(least: int, most: int) -> Limit:
    return limit("burst", "adaptive_concurrency", min=least, max=most, target="100ms", hold="10s")


def share(assured: int, ceiling: int | None = None, **fields: Any) -> Limit:
    most: dict[str, Any] = {} if ceiling is None else {"ceiling": ceiling}
    return limit("burst", "borrowing", assured=assured, parent="org", **most, **fields)


CUTS = {
    "less of a pool": (pool(100, 200), pool(50, 200), 50.0),
    "less to borrow at once": (pool(100, 200), pool(100, 200, reserve=100), 50.0),
    "less guaranteed": (share(100, 400), share(50, 400, burst=100), 50.0),
    "nothing guaranteed": (share(100, 400), share(0, 400), 100.0),
    "a lower ceiling": (share(100, 400), share(100, 200, ceiling_burst=400), 50.0),
    "a ceiling at all": (share(100), share(100, 1_000_000), 100.0),
    "a share for a bucket": (bucket(100, 100), share(60, 400), 40.0),
    "a bucket for a share": (share(100, 400), bucket(100, 400), 75.0),
    "less rate": (bucket(100, 200), bucket(50, 200), 50.0),
    "less at once": (bucket(100, 200), bucket(100, 50), 75.0),
    "less waiting": (bucket(100, 200, max_wait="10s"), bucket(100, 200, max_wait="1s"), 90.0),
    "a longer time for the same": (bucket(100, 200), bucket(100, 200, per="1m"), 98.3),
    "no longer in shadow": (bucket(100, 200, mode="shadow"), bucket(100, 200), 100.0),
    "no longer off": (bucket(100, 200, mode="off"), bucket(100, 200), 100.0),
    "counted together": (bucket(100, 200, subject="key"), bucket(100, 200), 100.0),
    "another dimension": (bucket(100, 200, subject="key"), bucket(100, 200, subject="ip"), 100.0),
    "a window for a bucket": (bucket(100, 6_000), limit("burst", "fixed_window", limit=3_000, window="1m"), 50.0),
    "a calendar": (
        limit("burst", "calendar_quota", limit=1_000, period="day"),
        limit("burst", "calendar_quota", limit=1_000, period="week"),
        85.7,
    ),
    "what is in flight": (
        limit("burst", "concurrency", limit=10, hold="1s"),
        limit("burst", "concurrency", limit=5, hold="1s"),
        50.0,
    ),
    "in flight at least": (adaptive(10, 100), adaptive(5, 100), 50.0),
    "in flight at most": (adaptive(10, 100), adaptive(10, 60), 40.0),
    "in flight for a rate": (bucket(100, 200), limit("burst", "concurrency", limit=500, hold="1s"), 100.0),
}
NO_CUTS = {
    "a higher ceiling": (share(100, 400), share(100, 800)),
    "no ceiling": (share(100, 400), share(100)),
    "another weight": (share(100, 400), share(100, 400, weight=1)),
    "as much guaranteed and more to borrow": (bucket(100, 100), share(100, 400)),
    "the same as a pool": (bucket(100, 200), pool(100, 200)),
    "a tenth": (bucket(100, 200), bucket(90, 180)),
    "more": (bucket(100, 200), bucket(101, 200)),
    "to shadow": (bucket(100, 200), bucket(1, 1, mode="shadow")),
    "the same in another algorithm": (bucket(100, 100), limit("burst", "gcra", rate=100, burst=100)),
    "counted apart": (bucket(100, 200), bucket(100, 200, subject="key")),
    "counted finer": (bucket(100, 200, subject="key"), bucket(100, 200, subject="key+ip")),
    "a new name": (bucket(100, 200), limit("renamed", rate=100, burst=200)),
    "a window for the same in minutes": (
        limit("burst", "fixed_window", limit=60, window="1m"),
        limit("burst", "fixed_window", limit=3_600, window="1h"),
    ),
}


@pytest.mark.parametrize("what", CUTS)
def test_it_is_a_cut(what: str) -> None:
    before, after, percent = CUTS[what]
    assert [(cut.limit, cut.percent) for cut in cuts(everywhere(before), everywhere(after))] == [("burst", percent)]


@pytest.mark.parametrize("what", NO_CUTS)
def test_it_is_none(what: str) -> None:
    before, after = NO_CUTS[what]
    assert cuts(everywhere(before), everywhere(after)) == []


def test_a_cut_names_limit_before_and_after() -> None:
    found = cuts(everywhere(bucket(100, 200)), everywhere(bucket(50, 100, subject="key")))
    assert found == [
        Cut("*", "burst", "100/s sustained, up to 200 at once", "50/s sustained, up to 100 at once for each key", 50.0)
    ]


def test_a_new_limit_is_a_cut_unless_something_as_tight_held() -> None:
    before, daily = bucket(10, 20), limit("daily", "calendar_quota", limit=1_000, period="day")
    minute = limit("minute", rate=1_000, per="1m", burst=2_000)
    assert cuts(everywhere(before), everywhere(before, minute)) == []
    assert [cut.limit for cut in cuts(everywhere(before), everywhere(before, daily))] == ["daily"]
    assert cuts(everywhere(), everywhere(daily))[0].before == NOT_ENFORCED


def test_what_held_on_one_endpoint_says_nothing_of_a_limit_over_all() -> None:
    own = tier_policy(QUERY, limit("own", rate=1, burst=1))
    found = cuts(plan(own), plan(own, tier_policy("*", bucket(100, 200))))
    assert [(cut.endpoint, cut.limit) for cut in found] == [("*", "burst")]


def test_an_endpoints_own_limit_is_compared_with_the_one_it_replaces() -> None:
    shared, own = tier_policy("*", bucket(100, 200)), tier_policy(QUERY, bucket(50, 100))
    assert [(cut.endpoint, cut.percent) for cut in cuts(plan(shared), plan(shared, own))] == [(QUERY, 50.0)]
    assert cuts(plan(shared, own), plan(shared)) == []


def test_a_removed_limit_gives_way_to_the_one_below() -> None:
    shared, own = tier_policy("*", bucket(100, 200)), tier_policy(QUERY, bucket(500, 1_000))
    assert [(cut.endpoint, cut.percent) for cut in cuts(plan(shared, own), plan(shared))] == [(QUERY, 80.0)]


class TestCosts:
    limits = tier_policy("*", bucket(100, 200, unit="cost"))

    def test_a_raised_cost_is_a_cut_where_cost_counts(self) -> None:
        found = cuts(plan(self.limits), plan(self.limits, costs={PAY: 4}))
        assert [(cut.endpoint, cut.percent) for cut in found] == [(PAY, 75.0)]
        assert found[0].before.endswith("a request costs 1")
        assert found[0].after.endswith("a request costs 4")

    def test_where_requests_count_it_is_none(self) -> None:
        requests = tier_policy("*", bucket(100, 200))
        assert cuts(plan(requests), plan(requests, costs={PAY: 4})) == []

    def test_to_count_cost_instead_of_requests_is_one_for_what_costs_more(self) -> None:
        requests, costs = tier_policy("*", bucket(100, 200)), {PAY: 10}
        found = cuts(plan(requests, costs=costs), plan(self.limits, costs=costs))
        assert [(cut.endpoint, cut.percent) for cut in found] == [(PAY, 90.0)]


def test_global_limits_are_compared_scope_by_scope() -> None:
    endpoints = {QUERY: Endpoint(1, QUERY)}
    before = {"*": global_policy("*", bucket(1_000, 1_000)), "search:*": global_policy("search:*", bucket(100, 100))}
    after = {**before, "search:*": global_policy("search:*", bucket(50, 100))}
    found = cuts(Plan.of_globals(before, endpoints), Plan.of_globals(after, endpoints))
    assert [(cut.endpoint, cut.percent) for cut in found] == [(QUERY, 50.0)]


def test_a_lease_is_no_cut_whatever_its_length() -> None:
    plain, bounded, never = (everywhere(bucket(1, 2, lease_ms=ms)) for ms in (None, 10, 0))
    assert cuts(plain, bounded) == cuts(bounded, never) == cuts(never, plain) == []
    assert not same_enforced(plain, never)


def test_what_is_only_watched_cannot_be_told_by_what_is_denied() -> None:
    watched = limit("watched", rate=1, burst=1, mode="shadow")
    assert same_enforced(everywhere(bucket(1, 2)), everywhere(bucket(1, 2), watched))
    assert not same_enforced(everywhere(bucket(1, 2)), everywhere(bucket(2, 2)))
    assert not same_enforced(
        plan(tier_policy("*", bucket(1, 2))),
        plan(tier_policy("*", bucket(1, 2)), tier_policy(QUERY, bucket(1, 2, mode="shadow"))),
    )
