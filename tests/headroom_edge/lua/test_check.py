"""What one check answers and changes. F10: state keys have a TTL; F27: a denial moves no other limit; A4: costs."""

import json

import pytest
from redis.exceptions import ResponseError

from headroom_edge import keys
from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.bucket import TokenBucket
from headroom_edge.algorithms.concurrency import Concurrency
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sliding_log import SlidingLog
from headroom_edge.keys import base36
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit, Override, Policy, Tenant
from tests.headroom_edge.lua.world import NOW_US, TENANT, TIER, World, tier_policy, times

WHOLE = Subject.parse("tenant")
IP = Subject.parse("ip")


def bucket(name: str, size: int, subject: Subject = WHOLE, **options: object) -> Limit:
    return Limit(name, TokenBucket(1, SECOND_US, size), subject, **options)  # type: ignore[arg-type]


def test_it_names_the_tightest_limit(world: World) -> None:
    world.limit_by(bucket("wide", 10), bucket("tight", 3))
    reply = world.check()
    assert (reply.allowed, reply.reason, reply.limit, reply.remaining, reply.revision) == (True, "ok", "tight", 2, 1)


def test_it_names_the_limit_with_the_longest_wait(world: World) -> None:
    world.limit_by(bucket("quick", 1), Limit("slow", TokenBucket(1, 60 * SECOND_US, 1), WHOLE))
    world.check()
    reply = world.check()
    assert (reply.allowed, reply.reason, reply.limit, reply.retry_us) == (False, "limit", "slow", 60 * SECOND_US)


def test_a_denial_leaves_every_other_limit_byte_for_byte(world: World) -> None:
    log = Limit("log", SlidingLog(5, SECOND_US), Subject.parse("user"))
    world.limit_by(bucket("ip", 1, IP), bucket("key", 9, Subject.parse("key")), bucket("tenant", 9), log)
    world.check(ip="1.2.3.4", key="k", user="u")
    before = world.state()
    reply = world.check(ip="1.2.3.4", key="k", user="u")
    assert (reply.allowed, reply.limit) == (False, "ip")
    assert len(before) == 5
    assert world.state() == before


def test_a_cost_above_a_limit_can_never_pass(world: World) -> None:
    world.limit_by(bucket("ten", 10, unit="cost"))
    reply = world.check(cost=11)
    assert (reply.allowed, reply.reason, reply.limit, reply.retry_us) == (False, "cost_too_big", "ten", -1)
    assert world.check(cost=10).remaining == 0


def test_a_limit_of_requests_counts_one_whatever_the_cost(world: World) -> None:
    world.limit_by(bucket("requests", 2, unit="requests"))
    assert world.check(cost=1000).remaining == 1


def test_a_star_takes_the_cost_that_the_endpoint_has(world: World) -> None:
    world.limit_by(bucket("ten", 10, unit="cost"))
    assert world.check(cost="*").remaining == 9


@pytest.mark.parametrize(
    "cost", ["nan", "inf", "-1", "0", "0x10", "1e309", "1e18", "1000000001", "", "null", "1.5", " 1", "1 ", "½"]
)
def test_a_senseless_cost_is_an_error_and_changes_nothing(world: World, cost: str) -> None:
    world.limit_by(bucket("ten", 10))
    with pytest.raises(ResponseError, match="HRCOST cost must be a whole number from 1 to 1000000000"):
        world.check(cost=cost)
    assert world.state() == {}
    assert world.usage() == {}


def test_arguments_that_are_no_pairs_are_an_error(world: World) -> None:
    world.limit_by(bucket("ten", 10))
    with pytest.raises(ResponseError, match="HRARGS after the cost come pairs"):
        world.ask("check", NOW_US, "rides:search", 1, "ip")
    with pytest.raises(ResponseError, match="HRARGS give tenant"):
        world.ask("check", NOW_US, "rides:search")


def test_a_wrong_shard_is_an_error_never_a_fresh_budget(world: World) -> None:
    world.tenants = {TENANT: Tenant(1, TENANT, TIER), "other": Tenant(2, "other", TIER)}
    world.limit_by(bucket("ten", 10))
    wrong = keys.shard_of("other")
    with pytest.raises(ResponseError, match=r"HRSHARD this tenant belongs to hr:\{62\}, not to hr:\{32\}"):
        world.call("check", NOW_US, wrong, TENANT, "rides:search", 1)


def test_an_unknown_tenant_is_denied(world: World) -> None:
    world.tenants = {TENANT: Tenant(1, TENANT, TIER)}
    world.limit_by(bucket("ten", 10))
    stranger = next(f"t{n}" for n in range(999) if keys.shard_of(f"t{n}") == keys.shard_of(TENANT))
    reply = world.check(tenant=stranger)
    assert (reply.allowed, reply.reason, reply.retry_us) == (False, "unknown_tenant", -1)
    assert world.usage() == {"00000000u": times(1)}


def test_one_tenant_can_stand_for_all_unknown_ones(world: World) -> None:
    world.settings["unknown_tenant"] = TENANT
    strangers = [f"t{n}" for n in range(999) if keys.shard_of(f"t{n}") in (keys.shard_of(TENANT), 7)][:6]
    shards = {keys.shard_of(name): name for name in strangers}
    assert len(shards) == 2
    world.tenants = {TENANT: Tenant(1, TENANT, TIER)} | {
        f"own{shard}": Tenant(2 + shard, name, TIER)
        for shard in shards
        for name in (next(f"o{n}" for n in range(9999) if keys.shard_of(f"o{n}") == shard),)
    }
    world.tenants = {tenant.name: tenant for tenant in world.tenants.values()}
    world.limit_by(bucket("six", 6))
    assert [world.check(tenant=name).remaining for name in strangers] == [5, 4, 3, 2, 1, 0]


def test_a_bypass_of_the_tenant_that_stands_for_all_reaches_those(world: World) -> None:
    world.settings["unknown_tenant"] = TENANT
    shard = keys.shard_of(TENANT)
    stranger, known = [f"t{n}" for n in range(999) if keys.shard_of(f"t{n}") == shard][:2]
    world.tenants = {TENANT: Tenant(1, TENANT, TIER), known: Tenant(2, known, TIER)}
    world.limit_by(bucket("one", 1))
    assert [world.check(tenant=name).reason for name in (TENANT, stranger, known, known)] == [
        "ok", "limit", "ok", "limit",
    ]  # fmt: skip
    switch = {"scope": "tenant", "name": TENANT, "until_us": NOW_US + 10, "reason": "outage"}
    world.call("bypass", NOW_US, shard, json.dumps([switch]))
    assert [world.check(tenant=name).reason for name in (TENANT, stranger, known)] == ["bypass", "bypass", "limit"]


def test_a_suspended_tenant_is_told_so(world: World) -> None:
    world.tenants = {TENANT: Tenant(1, TENANT, TIER, suspended=True)}
    world.limit_by(bucket("ten", 10))
    assert world.check().reason == "suspended"
    assert world.usage() == {"00001000p": times(1)}


def test_a_shard_without_configuration_is_not_ready(world: World) -> None:
    assert world.check().reason == "not_ready"
    world.limit_by(bucket("ten", 10))
    assert world.check().reason == "ok"
    world.client.flushall()
    reply = world.check()
    assert (reply.allowed, reply.reason) == (False, "not_ready")


@pytest.mark.parametrize("lost", [keys.config, keys.shard_prefix])
def test_a_half_lost_configuration_is_never_no_policy(world: World, lost: object) -> None:
    world.limit_by(bucket("one", 1))
    world.check()
    world.client.function_flush()  # and what the library had cached
    world.__post_init__()
    world.client.delete(lost(keys.shard_of(TENANT)))  # type: ignore[operator]
    assert world.check().reason == "not_ready"


def test_a_new_revision_holds_from_the_next_check_on(world: World) -> None:
    world.limit_by(bucket("a", 10))
    world.check()
    world.limit_by(bucket("a", 2))
    reply = world.check()
    assert (reply.revision, reply.quota) == (2, 2)


def test_a_flush_and_an_older_number_do_not_bring_an_old_plan_back(world: World) -> None:
    world.limit_by(bucket("a", 10))
    world.check()
    world.client.flushall()
    world.revision = 0
    world.limit_by(bucket("a", 2))
    assert world.check().remaining == 1


def test_a_star_limit_counts_all_endpoints_together(world: World) -> None:
    world.configure(
        tier_policy(bucket("all", 9), bucket("search", 9)), tier_policy(bucket("search", 5), endpoint="rides:search")
    )
    world.check(endpoint="rides:search")
    rows = {row[0]: (row[4], row[11]) for row in world.check(endpoint="rides:book", rows=True).rows}
    assert rows == {"all": (7, "0"), "search": (8, "0")}  # the endpoint's own limit left the shared counter alone
    rows = {row[0]: (row[4], row[11]) for row in world.check(endpoint="rides:search", rows=True).rows}
    assert rows == {"all": (6, "0"), "search": (3, "001")}
    assert {row[0]: row[4] for row in world.check(endpoint="never:seen", rows=True).rows} == {"all": 5, "search": 7}


def test_a_shadow_limit_never_denies_and_is_counted(world: World) -> None:
    world.limit_by(bucket("live", 9), bucket("trial", 1, mode="shadow"))
    assert [world.check().allowed for _ in range(3)] == [True, True, True]
    trial = base36(world.numbers["trial"])
    assert world.usage() == {"00001001a": times(3), f"00001001w{trial}": times(2)}
    assert [row[0] for row in world.check(rows=True).rows] == ["live"]


def test_a_candidate_is_judged_also_when_the_live_limit_denies(world: World) -> None:
    candidate = TokenBucket(1, SECOND_US, 3)
    world.limit_by(bucket("live", 1, candidate=candidate))
    assert [world.check().allowed for _ in range(4)] == [True, False, False, False]
    number = base36(world.numbers["live~candidate"])
    live = base36(world.numbers["live"])
    # It would have allowed three in all: two more than the live one.
    assert world.usage() == {"00001001a": times(1), f"00001001d{live}": times(3), f"00001001y{number}": times(2)}


def test_a_promoted_candidate_brings_its_state(world: World) -> None:
    smaller = TokenBucket(1, SECOND_US, 3)
    world.limit_by(bucket("live", 10, candidate=smaller))
    world.check()
    world.limit_by(Limit("live", smaller, WHOLE, adopts_candidate=True))
    assert world.check().remaining == 1


def test_an_override_starts_and_ends_by_the_clock_of_the_store(world: World) -> None:
    world.tenants = {TENANT: Tenant(1, TENANT, TIER)}
    override = Override(1, TENANT, "*", NOW_US + 10, NOW_US + 20, limits={"a": {"burst": 50}})
    world.configure(tier_policy(bucket("a", 5)), overrides=[override])
    quotas = [world.peek(NOW_US + step).quota for step in (0, 9, 10, 19, 20)]
    assert quotas == [5, 5, 50, 50, 5]


def test_global_limits_are_shared_by_all_tenants(world: World) -> None:
    world.tenants = {TENANT: Tenant(1, TENANT, TIER), "other": Tenant(2, "other", "free")}
    everyone = Policy("backend", "*", (bucket("backend", 2),))
    world.configure(everyone, tier_policy(bucket("a", 5)))
    replies = [world.check(), world.check(tenant="other"), world.check(tenant="other")]
    assert [(reply.allowed, reply.limit) for reply in replies] == [
        (True, "backend"),
        (True, "backend"),
        (False, "backend"),
    ]


def test_the_holder_of_a_slot_is_the_callers_or_is_made(world: World) -> None:
    world.limit_by(Limit("slots", Concurrency(2, 10 * SECOND_US), WHOLE))
    assert world.check(holder="mine").holder == "mine"
    made = world.check().holder
    assert made
    assert not world.check(holder="third").allowed
    assert world.check(holder="mine").allowed  # the same holder again renews
    assert world.ask("release", NOW_US, "rides:search", made) == 1
    assert world.check(holder="third").allowed
    assert world.check(NOW_US + 10 * SECOND_US, holder="fourth").allowed  # nobody released; the holds ended


def test_a_bypass_turns_limits_to_shadow_until_it_ends(world: World) -> None:
    world.limit_by(bucket("a", 1))
    world.check()
    switch = f'[{{"scope":"limit","name":"a","until_us":{NOW_US + 10},"reason":"3 a.m."}}]'
    world.call("bypass", NOW_US, keys.shard_of(TENANT), switch)
    reply = world.check()
    assert (reply.allowed, reply.reason) == (True, "bypass")
    assert world.check(NOW_US + 10).reason == "limit"
    world.limit_by(bucket("a", 1))  # a publish leaves the switch alone
    assert world.check(NOW_US + 5).reason == "bypass"
    world.call("bypass", NOW_US, keys.shard_of(TENANT), "")
    assert world.check(NOW_US + 5).reason == "limit"


def test_every_state_key_has_a_ttl_and_a_planted_one_heals(world: World) -> None:
    log, slots = Limit("log", SlidingLog(5, SECOND_US), IP), Limit("slots", Concurrency(2, SECOND_US), IP)
    world.limit_by(bucket("a", 5), log, slots, Limit("f", FixedWindow(9, SECOND_US), IP))
    before_ms = world.store_ms()
    world.check(ip="1.2.3.4")
    assert len(world.state()) == 4
    assert all(lifetime > 1000 for lifetime in world.lifetimes(before_ms).values())
    for key in world.state():
        world.client.persist(key)
    before_ms = world.store_ms()
    world.check(ip="1.2.3.4")
    assert all(lifetime > 1000 for lifetime in world.lifetimes(before_ms).values())


def test_peeking_charges_and_counts_nothing(world: World) -> None:
    world.limit_by(bucket("a", 5), Limit("log", SlidingLog(5, SECOND_US), IP))
    assert world.peek(ip="::1").remaining == 4
    assert world.state() == {}
    assert world.usage() == {}


@pytest.mark.parametrize("now_us", [0, 4_102_444_800_000_000, 2**53 - 10**12])
def test_timestamps_stay_exact_from_1970_beyond_2100(world: World, now_us: int) -> None:
    world.limit_by(Limit("third", TokenBucket(3, SECOND_US, 3), WHOLE))
    for _ in range(3):
        assert world.check(now_us).allowed
    assert world.check(now_us).retry_us == 333_334
    assert not world.check(now_us + 333_333).allowed
    assert world.check(now_us + 333_334).allowed
