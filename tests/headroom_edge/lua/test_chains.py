"""Limits that share, in the store: who pays, what a denial leaves alone, what is counted and given back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from redis.exceptions import ResponseError

from headroom_edge import keys, lua_library
from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.bucket import TokenBucket
from headroom_edge.algorithms.sharing import Pool
from headroom_edge.keys import base36
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Generation, Limit, Policy
from tests.headroom_edge.lua.sharing import pool, share
from tests.headroom_edge.lua.world import NOW_US, TENANT, TIER, Reply, World, tier_policy, times

SHARD = keys.shard_of(TENANT)
EPOCH_US = 100_000
FAST = 1_000_000  # of a pool whose fair share never refuses what these tests ask


def roomy(burst: int = 8, reserve: int = 0) -> Limit:
    """A pool that lends three quarters of its burst at once to requests of normal priority."""
    return pool(FAST, burst, reserve)


def hourly(name: str, burst: int, subject: str = "tenant") -> Limit:
    return Limit(name, TokenBucket(1, 3_600 * SECOND_US, burst), Subject.parse(subject))


def slow_pool(burst: int, reserve: int = 0) -> Limit:
    """A unit an hour."""
    return Limit("org", Pool(1, 3_600 * SECOND_US, burst, reserve), Subject.parse("tenant"))


def exhaust(world: World, team: str) -> int:
    """Borrows all that a pool of 10/s with a burst of 20 lends, and once more. Returns when there is one unit again."""
    assert all(world.check(team=team).allowed for _ in range(15))
    assert not world.check(team=team).allowed
    return NOW_US + EPOCH_US


def causes(reply: Reply) -> dict[str, str]:
    return {row[0]: row[8].partition("/")[2] for row in reply.rows}


def told(world: World, **dimensions: Any) -> dict[str, tuple[int, int]]:
    return {row[0]: (row[2], row[3]) for row in world.check(rows=True, **dimensions).rows}


def test_a_member_without_share_and_ceiling_tells_the_quota_and_window_of_what_it_ends_at(world: World) -> None:
    free = share(0, 0, name="key", parent="team", subject="team+key")
    world.limit_by(pool(10, 40), share(0, 0), free)
    assert told(world, team="a", key="k") == {"org": (40, 4), "team": (40, 4), "key": (40, 4)}
    world.limit_by(pool(10, 40), share(2, 2, 5, 20), free)
    assert told(world, team="a", key="k") == {"org": (40, 4), "team": (20, 4), "key": (20, 4)}
    world.limit_by(pool(10, 40), share(2, 8), free)
    assert told(world, team="a", key="k") == {"org": (40, 4), "team": (8, 4), "key": (40, 4)}


def test_a_member_uses_its_own_share_and_then_borrows_what_the_pool_lends(world: World) -> None:
    world.limit_by(pool(10, 20, 0), share(2, 2))
    replies = [world.check(team="a", rows=True) for _ in range(16)]
    assert [reply.allowed for reply in replies] == [True] * 15 + [False]
    denied = replies[-1]
    assert (denied.reason, denied.limit, denied.retry_us) == ("limit", "team", 100_000)
    assert world.check(NOW_US + 100_000, team="a").allowed


def test_the_leaf_speaks_for_its_chain(world: World) -> None:
    world.limit_by(slow_pool(4, 4), share(1, 1))
    assert world.check(team="a").allowed
    denied = world.check(team="a", rows=True)
    assert {row[0]: (row[1], row[6]) for row in denied.rows} == {"team": (0, SECOND_US), "org": (1, 0)}
    assert {row[0]: row[4] for row in denied.rows} == {"team": 0, "org": 3}
    assert causes(denied) == {"team": "pool", "org": ""}


def test_each_cause_is_told(world: World) -> None:
    world.limit_by(pool(10, 20, 0), share(0, 0))
    later_us = exhaust(world, "a")
    assert causes(world.check(team="b", rows=True))["team"] == "pool"
    assert world.check(later_us, team="a").allowed
    assert causes(world.check(later_us, team="a", rows=True))["team"] == "share"
    world.limit_by(slow_pool(8, 8), share(0, 0, 2))
    never = world.check(team="b", rows=True)
    assert (never.reason, never.retry_us) == ("cost_too_big", -1)
    world.limit_by(roomy(), share(3, 3, 3))
    for _ in range(3):
        assert world.check(team="c").allowed
    assert causes(world.check(team="c", rows=True))["team"] == "ceiling"


@pytest.mark.parametrize("rows", [False, True])
def test_a_denial_changes_no_record(world: World, rows: bool) -> None:
    world.limit_by(slow_pool(8, 6), share(0, 0, 4))
    assert [world.check(team="a").allowed for _ in range(2)] == [True, True]
    before = world.state()
    for step in range(30):
        assert not world.check(NOW_US + step * 40_000, team="a", rows=rows).allowed
    assert world.state() == before


def test_a_chain_is_not_charged_for_what_another_limit_denies(world: World) -> None:
    world.limit_by(roomy(), share(2, 2), hourly("one", 1))
    world.check(team="a")
    before = world.state()
    denied = world.check(team="a", rows=True)
    assert (denied.limit, {row[0]: row[1] for row in denied.rows}) == ("one", {"team": 1, "org": 1, "one": 0})
    assert world.state() == before


def test_what_was_borrowed_is_counted_with_its_lender(world: World) -> None:
    world.limit_by(roomy(), share(2, 2))
    for _ in range(5):
        assert world.check(team="a").allowed
    lender = f"l{base36(world.numbers['org'], 1)}"
    assert world.usage() == {"00001001a": times(2), f"00001001{lender}": times(3)}


def test_a_pool_that_is_asked_itself_lends_nothing(world: World) -> None:
    world.limit_by(roomy(8, 4))
    assert [world.check().allowed for _ in range(4)] == [True, True, True, False]
    assert world.usage()["00001001a"] == times(3)


def test_the_list_of_denials_tells_the_cause(world: World) -> None:
    world.limit_by(pool(10, 20, 0), share(0, 0))
    later_us = exhaust(world, "a")
    for _ in range(2):
        world.check(later_us, team="a")
    found: Any = world.client.lrange(keys.denials(SHARD, "00001"), 0, -1)
    assert [item.split()[3] for item in found] == [b"limit/share", b"limit/pool"]


def test_a_request_of_lower_priority_fills_less_of_a_pool(world: World) -> None:
    world.limit_by(pool(FAST, 24, 4))
    assert [world.check(priority="sheddable").allowed for _ in range(11)] == [True] * 10 + [False]
    assert [world.check().allowed for _ in range(6)] == [True] * 5 + [False]
    assert not world.check(priority="critical").allowed  # a caller only lowers it


def test_an_unknown_priority_is_an_error_that_changes_nothing(world: World) -> None:
    world.limit_by(roomy())
    with pytest.raises(ResponseError, match="HRARGS priority must be"):
        world.check(priority="urgent")
    assert world.state() == {}


def test_three_levels_borrow_from_the_nearest_that_has_some(world: World) -> None:
    key = share(1, 1, name="key", parent="team", subject="team+key")
    world.limit_by(roomy(40), share(4, 4, weight=1), key)
    for _ in range(6):
        assert world.check(team="a", key="k").allowed
    ids = {name: base36(world.numbers[name], 1) for name in ("org", "team")}
    # The team lends to three quarters of its burst, of which the key's own unit is one.
    counted = {"a": 1, f"l{ids['team']}": 2, f"l{ids['org']}": 3}
    assert world.usage() == {f"00001001{name}": times(count) for name, count in counted.items()}


def test_a_refund_gives_back_what_was_charged(world: World) -> None:
    world.limit_by(slow_pool(8, 4), share(1, 1, 5))
    own = world.check(team="a", rows=True)
    lent = world.check(team="a", rows=True)
    before = world.peek(team="b", rows=True)
    assert world.ask("refund", NOW_US, "rides:search", lent.receipt, "team", "a") == 2
    assert world.ask("refund", NOW_US, "rides:search", lent.receipt, "team", "a") == 0
    assert {row[0]: row[4] for row in before.rows}["org"] == 5
    after = world.peek(team="b", rows=True)
    assert {row[0]: row[4] for row in after.rows}["org"] == 6
    assert world.check(team="a").allowed  # its turn to borrow came back, too
    assert world.ask("refund", NOW_US, "rides:search", own.receipt, "team", "a") == 2
    assert world.check(team="a", rows=True).allowed


def test_a_late_refund_gives_nothing(world: World) -> None:
    world.limit_by(pool(10, 20, 0), share(10, 10))
    reply = world.check(team="a", rows=True)
    assert world.ask("refund", NOW_US + SECOND_US, "rides:search", reply.receipt, "team", "a") == 0


def test_a_reset_fills_a_members_own_share_again(world: World) -> None:
    world.limit_by(slow_pool(8, 8), share(2, 2))
    assert [world.check(team="a").allowed for _ in range(3)] == [True, True, False]
    assert world.ask("reset", NOW_US, "rides:search", "team", "team", "a") == 1
    assert world.check(team="a").allowed


def test_a_chain_in_shadow_is_judged_as_one_and_denies_nothing(world: World) -> None:
    world.limit_by(replace(slow_pool(8, 8), mode="shadow"), replace(share(1, 1), mode="shadow"))
    assert [world.check(team="a").allowed for _ in range(3)] == [True, True, True]
    leaf = base36(world.numbers["team"], 1)
    assert world.usage() == {"00001001a": times(3), f"00001001w{leaf}": times(2)}


@pytest.mark.parametrize("name", ["team", "org"])
def test_a_bypass_of_any_of_its_limits_passes_a_chain(world: World, name: str) -> None:
    world.limit_by(slow_pool(8, 8), share(1, 1))
    world.check(team="a")
    before = world.state()
    switch = {"scope": "limit", "name": name, "until_us": NOW_US + 10, "reason": "outage"}
    world.call("bypass", NOW_US, SHARD, json.dumps([switch]))
    assert world.check(team="a").reason == "bypass"
    assert {key: value for key, value in world.state().items() if key in before} == before


def test_chains_are_never_leased(world: World) -> None:
    world.limit_by(pool(1_000_000, 1_000_000, 0), share(1_000, 1_000))
    nothing = (0, 0, 0, 0, "")
    reply: Any = world.ask("lease", NOW_US, "rides:search", 1, 100, 100, 100, *nothing, "team", "a")
    assert (reply[0], reply[-1][:3]) == (1, [0, 0, -1])


def test_new_members_past_the_cap_share_one_record(world: World) -> None:
    world.settings["subject_cap"] = 2
    world.limit_by(slow_pool(100, 100), share(1, 1))
    replies = [world.check(team=f"t{number}") for number in range(4)]
    assert [reply.reason for reply in replies] == ["ok", "ok", "ok", "overflow"]


def test_both_buckets_keep_what_is_used_when_parameters_change(world: World) -> None:
    before = share(4, 4, 8)
    world.limit_by(slow_pool(100, 100), before)
    for _ in range(3):
        world.check(team="a")
    later_us = NOW_US + 1
    past = (Generation(before.algorithm, 0, "keep"),)
    after = replace(share(6, 6, 6), since_us=later_us, carry="keep", past=past)
    world.limit_by(slow_pool(100, 100), after)
    assert [world.check(later_us, team="a").allowed for _ in range(4)] == [True, True, True, False]


def test_a_global_pool_is_shared_by_tenants(world: World) -> None:
    world.tenants = {**world.tenants, "other": replace(world.tenants[TENANT], number=2, name="other")}
    everyone = Policy("everyone", "*", (slow_pool(8, 4),))
    world.configure(everyone, tier_policy(replace(share(0, 0), subject=Subject.parse("tenant"))))
    assert [world.check().allowed for _ in range(2)] == [True, True]
    last = world.check(tenant="other", rows=True)
    assert (last.allowed, last.rows[-1][4]) == (True, 5)
    assert not world.check().allowed
    assert not world.check(tenant="other").allowed


def test_a_peek_teaches_the_lender_nothing(world: World) -> None:
    world.limit_by(pool(10, 20, 0), share(0, 0))
    assert all(world.check(team="a").allowed for _ in range(15))
    for _ in range(50):
        assert not world.peek(team="a").allowed
    # Had the refusals counted, the next epoch would have less to lend to each.
    assert world.check(NOW_US + EPOCH_US, team="a").allowed
    assert world.peek(NOW_US + EPOCH_US, team="a").retry_us == 100_000


def test_every_record_of_a_chain_has_a_ttl_that_outlives_it(world: World) -> None:
    world.limit_by(pool(1, 20, 0), share(1, 10, 1, 30))
    before_ms = world.store_ms()
    world.check(team="a")
    ttls = world.lifetimes(before_ms)
    assert len(ttls) == 2
    assert all(ttl > 19_000 for ttl in ttls.values())
    assert max(ttls.values()) > 60_000  # a loan may put off the next one by a minute


def test_after_a_step_back_of_the_clock_nobody_waits_longer_than_a_refill(world: World) -> None:
    world.limit_by(pool(10, 20, 0), share(2, 2, 10))
    for _ in range(3):
        world.check(team="a")
    earlier_us = NOW_US - 3_600 * SECOND_US
    denied = world.check(earlier_us, team="a", rows=True)
    assert 0 < denied.retry_us <= 2 * SECOND_US
    assert world.check(earlier_us + denied.retry_us, team="a").allowed


def test_a_reloaded_library_goes_on_with_the_stored_share(world: World) -> None:
    world.limit_by(pool(1_000, 250, 200), share(0, 0))
    for step in range(400):
        world.check(NOW_US + step * 500, team=f"t{step % 4}")
    before = world.state()
    world.client.function_load(lua_library.simulation_source(), replace=True)
    assert world.state() == before
    assert world.check(NOW_US + 400 * 500, team="t0").reason in ("ok", "limit")


def test_the_same_member_pays_in_one_chain_whatever_the_endpoint(world: World) -> None:
    own = Policy("book", "rides:book", (share(2, 2),), tier=TIER)
    world.configure(Policy("all", "*", (slow_pool(8, 4),), tier=TIER), own)
    assert world.check(team="a", endpoint="rides:book").allowed
    assert world.check(endpoint="rides:search", rows=True).rows[0][4] == 1  # lends three, two of which are used


def test_after_its_first_refusal_a_member_may_borrow_when_it_was_told(world: World) -> None:
    world.limit_by(pool(rate=100, burst=20), share(assured=0, burst=0, ceiling=None))
    while (told := world.check(team="a")).allowed:
        pass
    assert not world.peek(NOW_US + told.retry_us - 1, team="a").allowed
    assert world.check(NOW_US + told.retry_us, team="a").allowed
