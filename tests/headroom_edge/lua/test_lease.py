"""What hr_lease grants, to whom and for how long. How a block is settled: test_settlement.py."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import ResponseError

from headroom_edge import keys, lua_library
from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.bucket import Gcra, LeakyBucket, TokenBucket
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from headroom_edge.algorithms.concurrency import Concurrency
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sliding_counter import SlidingCounter
from headroom_edge.algorithms.sliding_log import SlidingLog
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit, Override, Policy, Tenant
from tests.headroom_edge.lua.leases import ENDPOINT, Block, lease
from tests.headroom_edge.lua.world import NOW_US, TENANT, TIER, World, tier_policy

WHOLE = Subject.parse("tenant")
SHARD = keys.shard_of(TENANT)
MS = 1_000
NONE = (0, 0, 0, "")
NEVER = (0, 0, -1, "")

LEASED: list[Any] = [
    TokenBucket(1_000, SECOND_US, 1_000),
    TokenBucket(1_000, SECOND_US, 1_000, 300 * MS),
    Gcra(1_000, SECOND_US, 1_000),
    FixedWindow(1_000, SECOND_US),
    SlidingCounter(1_000, SECOND_US),
    SlidingLog(1_000, SECOND_US),
    CalendarQuota(1_000_000, "day", "UTC", ""),
]
every_kind = pytest.mark.parametrize(
    "algorithm", LEASED, ids=lambda one: f"{one.name}{getattr(one, 'max_wait_us', '')}"
)
THOUSAND = LEASED[0]


def limited(algorithm: Any, name: str = "a", **options: Any) -> Limit:
    return Limit(name, algorithm, options.pop("subject", WHOLE), **options)


def granted(block: Block) -> tuple[Any, ...]:
    return block.calls, block.cost, block.lasts_us, block.receipt


@every_kind
def test_a_lease_decides_and_grants_a_block(world: World, algorithm: Any) -> None:
    world.limit_by(limited(algorithm))
    reply, block = lease(world)
    assert (reply.allowed, reply.reason, reply.remaining) == (True, "ok", algorithm.capacity - 1)
    assert (block.calls, block.cost, block.lasts_us) == (100, 100, 100 * MS)


@every_kind
def test_the_reply_is_that_of_a_check(world: World, algorithm: Any) -> None:
    world.limit_by(limited(algorithm), limited(THOUSAND, "b", unit="cost"))
    world.check()
    expected = world.peek(cost=3, rows=True)
    reply, block = lease(world, cost=3, rows=True)
    assert block.calls > 0
    assert (reply.limit, reply.remaining, reply.reset_us) == (expected.limit, expected.remaining, expected.reset_us)
    assert reply.rows == expected.rows
    assert world.ask("refund", NOW_US + 200 * MS, ENDPOINT, reply.receipt) >= 0


@every_kind
def test_a_block_is_a_quarter_of_what_is_left_at_most(world: World, algorithm: Any) -> None:
    world.limit_by(limited(algorithm))
    _, block = lease(world, want=10**9)
    length = 100 if algorithm.kind in "tg" else 0  # units that a bucket is charged for the block's length
    assert block.calls == min((algorithm.capacity - max(1, length)) // 4, 1_000)


@every_kind
def test_a_block_of_few_units_is_not_granted(world: World, algorithm: Any) -> None:
    world.limit_by(limited(algorithm, unit="cost"))
    assert granted(lease(world, want=7)[1]) == NONE
    world.check(cost=algorithm.capacity - 33)
    assert granted(lease(world)[1]) == NONE


@pytest.mark.parametrize("never", [LeakyBucket(1_000, SECOND_US, 1_000), Concurrency(100, SECOND_US)])
def test_a_plan_with_a_queue_or_with_slots_is_never_leased(world: World, never: Any) -> None:
    world.limit_by(limited(THOUSAND), limited(never, "b", mode="shadow"))
    reply, block = lease(world)
    assert (reply.allowed, granted(block)) == (True, NEVER)


def test_a_limit_that_forbids_leases_forbids_them_for_the_plan(world: World) -> None:
    world.limit_by(limited(THOUSAND), limited(THOUSAND, "b", lease_ms=0))
    assert granted(lease(world)[1]) == NEVER


def test_the_shortest_bound_holds(world: World) -> None:
    world.limit_by(limited(THOUSAND, lease_ms=200), limited(THOUSAND, "b", lease_ms=240))
    assert lease(world)[1].lasts_us == 200 * MS
    assert lease(world, longest_ms=20)[1].lasts_us == 20 * MS
    assert granted(lease(world, longest_ms=0)[1]) == NONE


def test_a_lease_ends_within_its_window(world: World) -> None:
    world.limit_by(limited(FixedWindow(1_000, SECOND_US)))
    assert lease(world, NOW_US + 950 * MS)[1].lasts_us == 50 * MS - 1
    assert granted(lease(world, NOW_US + SECOND_US - 1)[1]) == NONE  # too short to be of use


def test_a_lease_ends_within_its_period(world: World) -> None:
    quota = CalendarQuota(1_000_000, "day", "UTC", "")
    world.limit_by(limited(quota))
    midnight_us = NOW_US - NOW_US % (86_400 * SECOND_US) + 86_400 * SECOND_US
    assert lease(world, midnight_us - 30 * MS)[1].lasts_us == 30 * MS - 1


@pytest.mark.parametrize("is_start", [True, False])
def test_a_lease_ends_before_an_override_begins_or_ends(world: World, is_start: bool) -> None:
    start_us, end_us = (NOW_US + 40 * MS, NOW_US + SECOND_US) if is_start else (NOW_US - SECOND_US, NOW_US + 40 * MS)
    override = Override(1, TENANT, ENDPOINT, start_us, end_us, multiplier=(1, 2))
    world.configure(tier_policy(limited(THOUSAND), endpoint=ENDPOINT), overrides=[override])
    assert lease(world)[1].lasts_us == 40 * MS - 1
    assert lease(world, NOW_US + 2 * SECOND_US)[1].lasts_us == 100 * MS


def test_a_small_bucket_is_leased_for_a_quarter_of_its_time(world: World) -> None:
    world.limit_by(limited(TokenBucket(10_000, SECOND_US, 400)))  # full again after 40 ms
    _, block = lease(world)
    assert (block.calls, block.lasts_us) == (75, 10 * MS)


def test_a_calendar_quota_lends_a_thousandth_at_most(world: World) -> None:
    world.limit_by(limited(CalendarQuota(50_000, "day", "UTC", "")))
    assert lease(world, want=10_000)[1].calls == 50


def test_limits_on_requests_are_charged_calls_and_others_cost(world: World) -> None:
    calls, cost = FixedWindow(10_000, SECOND_US), FixedWindow(10_000, SECOND_US)
    world.limit_by(limited(calls, "calls"), limited(cost, "cost", unit="cost"))
    _, block = lease(world, want=(10, 70), cost=7)
    assert (block.calls, block.cost) == (10, 70)
    rows = {row[0]: row[4] for row in world.peek(rows=True).rows}
    assert rows == {"calls": 10_000 - 1 - 10 - 1, "cost": 10_000 - 7 - 70 - 1}


def test_calls_and_cost_shrink_in_proportion(world: World) -> None:
    world.limit_by(limited(FixedWindow(401, SECOND_US)), limited(FixedWindow(10**6, SECOND_US), "b", unit="cost"))
    _, block = lease(world, want=(1_000, 3_000))
    assert (block.calls, block.cost) == (100, 300)


def test_shadow_limits_and_candidates_bound_a_block_and_are_charged(world: World) -> None:
    shadow = limited(FixedWindow(401, SECOND_US), "shadow", mode="shadow")
    world.limit_by(limited(FixedWindow(10_000, SECOND_US), candidate=FixedWindow(201, SECOND_US)), shadow)
    assert [lease(world, want=1_000)[1].calls for _ in range(3)] == [50, 37, 27]
    assert [lease(world, want=1_000)[1].calls for _ in range(6)] == [20, 15, 11, 8, 0, 0]


def test_a_shadow_limit_that_denies_is_asked_each_time(world: World) -> None:
    world.limit_by(limited(THOUSAND), limited(FixedWindow(2, SECOND_US), "shadow", mode="shadow"))
    assert [granted(lease(world)[1]) for _ in range(4)] == [NONE] * 4
    denied = {name: value % 2**24 for name, value in world.usage().items() if "w" in name}
    assert list(denied.values()) == [2]


def test_a_denied_request_gets_no_block(world: World) -> None:
    world.limit_by(limited(FixedWindow(100, SECOND_US), unit="cost"))
    reply, block = lease(world, cost=101)
    assert (reply.allowed, reply.reason, granted(block)) == (False, "cost_too_big", NONE)


def test_there_is_no_block_while_a_bypass_holds(world: World) -> None:
    world.limit_by(limited(THOUSAND))
    world.call("bypass", NOW_US, SHARD, f'[{{"scope":"tenant","name":"{TENANT}","until_us":{NOW_US + 10}}}]')
    assert granted(lease(world)[1]) == NONE
    assert lease(world, NOW_US + 10)[1].calls == 100


def test_a_sampled_subject_gets_no_block(world: World) -> None:
    world.settings["sample_per_1024"] = 1024
    world.limit_by(limited(THOUSAND, subject=Subject.parse("ip")))
    assert [granted(lease(world, ip="1.1.1.1")[1]) for _ in range(2)] == [NONE] * 2


def test_subjects_that_share_an_overflow_record_get_no_block(world: World) -> None:
    world.settings |= {"subject_cap": 1, "sample_per_1024": 0}
    world.limit_by(limited(THOUSAND, subject=Subject.parse("ip")))
    assert lease(world, ip="1.1.1.1")[1].calls == 100
    assert granted(lease(world, ip="2.2.2.2")[1]) == NONE
    assert lease(world, ip="1.1.1.1")[1].calls == 100


def test_global_limits_take_part(world: World) -> None:
    other = "globex"
    world.tenants = {TENANT: Tenant(1, TENANT, TIER), other: Tenant(2, other, TIER)}
    everyone = Policy("everyone", "*", (limited(FixedWindow(401, SECOND_US), "g"),))
    world.configure(tier_policy(limited(THOUSAND)), everyone)
    assert lease(world, want=1_000)[1].calls == 100
    assert world.check(tenant=other, rows=True).rows[1][4] == 401 - 1 - 100 - 1


def test_a_tenant_without_limits_leases_what_it_wants(world: World) -> None:
    world.configure()
    reply, block = lease(world, want=5_000)
    assert (reply.allowed, block.calls, block.lasts_us) == (True, 5_000, 100 * MS)


def test_the_dimensions_of_the_plan_are_told(world: World) -> None:
    world.settings["sample_per_1024"] = 0
    world.limit_by(limited(THOUSAND, subject=Subject.parse("key|ip")), limited(THOUSAND, "b"))
    _, block = lease(world, user="u", ip="1.1.1.1")
    assert block.dimensions == ("key", "ip")
    assert lease(world, want=0)[1].dimensions == ("key", "ip")


def test_a_suspended_tenant_and_an_unready_shard_get_no_block(world: World) -> None:
    assert (lease(world)[0].reason, granted(lease(world)[1])) == ("not_ready", NONE)
    world.tenants = {TENANT: Tenant(1, TENANT, TIER, suspended=True)}
    world.limit_by(limited(THOUSAND))
    assert (lease(world)[0].reason, granted(lease(world)[1])) == ("suspended", NONE)


TOKEN = "if found.values[1] == found.header.token then break end"


@pytest.mark.parametrize(("compared", "calls"), [(TOKEN, 249), ("do break end", 1_874)])
def test_a_stale_header_grants_nothing_on_old_parameters(world: World, compared: str, calls: int) -> None:
    """Two libraries, each with its own cache. One publishes a smaller limit; the other must notice by the token."""
    other = lua_library._assemble("other", "ho_", "clock_sim")
    assert other.count(TOKEN) == 1
    world.client.function_load(other.replace(TOKEN, compared), replace=True)

    def leased_elsewhere() -> int:
        words = (TENANT, ENDPOINT, 1, 100_000, 100_000, 100, 0, 0, 0, 0, "")
        reply: Any = world.client.fcall("ho_lease", 1, keys.shard_prefix(SHARD), NOW_US, *words)
        return int(reply[-1][0])

    world.limit_by(limited(FixedWindow(10_000, SECOND_US)))
    assert leased_elsewhere() == 2_499
    world.limit_by(limited(FixedWindow(1_000, SECOND_US)))
    assert leased_elsewhere() == calls
    world.client.function_delete("other")


@every_kind
def test_every_key_of_a_lease_has_a_ttl_that_outlives_it(world: World, algorithm: Any) -> None:
    world.limit_by(limited(algorithm, lease_ms=1_000))
    before_ms = world.store_ms()
    _, block = lease(world, want=10**6)
    assert block.calls > 0
    ttls = world.lifetimes(before_ms)
    assert any(key.endswith(b":e") for key in ttls)
    # The block counts until the bucket is full again, or a window after its end.
    assert all(ttl > 1_500 for ttl in ttls.values()), ttls


def test_keys_of_another_type_are_replaced(world: World) -> None:
    world.limit_by(limited(THOUSAND))
    lease(world)
    for key in world.state():
        world.client.delete(key)
        world.client.rpush(key, "of another type")
    _, block = lease(world, NOW_US + MS)
    assert block.calls == 100
    assert lease(world, NOW_US + 2 * MS)[0].remaining < 900


def test_nonsense_is_an_error_that_changes_nothing(world: World) -> None:
    world.limit_by(limited(THOUSAND))
    good = [ENDPOINT, "1", "9", "9", "100", "0", "0", "0", "0", ""]
    for at, word in ((2, "-1"), (3, "x"), (4, "1.5"), (5, ""), (8, "1e3")):
        words = [*good[:at], word, *good[at + 1 :]]
        with pytest.raises(ResponseError, match="HRARGS give tenant, endpoint, cost, wanted calls"):
            world.ask("lease", NOW_US, *words)
    with pytest.raises(ResponseError, match="HRCOST"):
        world.ask("lease", NOW_US, ENDPOINT, "0", *good[2:])
    with pytest.raises(ResponseError, match="HRARGS give tenant, endpoint, cost, wanted calls"):
        world.ask("lease", NOW_US, *good[:-1])
    with pytest.raises(ResponseError, match="HRARGS after the receipt come pairs"):
        world.ask("lease", NOW_US, *good, "ip")
    assert (world.state(), world.usage()) == ({}, {})
