"""How a block ends: what was spent is accounted and what is left comes back, exactly once, and never too much."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import ResponseError

from headroom_edge import keys, lua_library
from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.bucket import TokenBucket
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit, Tenant
from tests.headroom_edge.lua.lease_truth import BucketTruth
from tests.headroom_edge.lua.leases import ENDPOINT, Block, Settlement, give_back, lease, spent
from tests.headroom_edge.lua.test_lease import LEASED, MS, THOUSAND, every_kind, limited
from tests.headroom_edge.lua.world import NOW_US, TENANT, TIER, World, usage_of

SHARD = keys.shard_of(TENANT)


def remaining(world: World, now_us: int) -> int:
    return world.peek(now_us).remaining


@every_kind
def test_units_that_come_back_can_be_used_again(world: World, algorithm: Any) -> None:
    world.limit_by(limited(algorithm))
    _, block = lease(world)
    left = remaining(world, NOW_US + MS)
    assert give_back(world, NOW_US + MS, spent(block, 40)) == 1
    assert remaining(world, NOW_US + MS) == left + 60


@every_kind
def test_a_renewal_settles_the_block_before(world: World, algorithm: Any) -> None:
    world.limit_by(limited(algorithm))
    _, block = lease(world)
    _, second = lease(world, NOW_US + MS, want=20, settle=spent(block, 40))
    assert second.calls == 20
    assert usage_of(world.client, "a") == 1 + 40 + 1
    assert give_back(world, NOW_US + MS, spent(second, 20)) == 1
    assert usage_of(world.client, "a") == 1 + 40 + 1 + 20


@every_kind
def test_a_denied_renewal_gives_back_too(world: World, algorithm: Any) -> None:
    world.limit_by(limited(algorithm, unit="cost"))
    _, block = lease(world)
    left = remaining(world, NOW_US + MS)
    reply, _ = lease(world, NOW_US + MS, cost=algorithm.capacity + 1, settle=spent(block, 0))
    assert not reply.allowed
    assert remaining(world, NOW_US + MS) == left + 100


@every_kind
def test_a_receipt_settles_once_whoever_presents_it(world: World, algorithm: Any) -> None:
    world.limit_by(limited(algorithm))
    _, block = lease(world)
    settle = spent(block, 40)
    assert [give_back(world, NOW_US + MS, settle) for _ in range(3)] == [1, 0, 0]
    left = remaining(world, NOW_US + MS)
    lease(world, NOW_US + MS, want=0, settle=settle)
    assert give_back(world, NOW_US + MS, spent(block, 10)) == 0  # with other numbers
    assert remaining(world, NOW_US + MS) == left - 1
    assert usage_of(world.client, "a") == 1 + 40 + 1


@every_kind
def test_what_was_reset_does_not_come_back(world: World, algorithm: Any) -> None:
    world.limit_by(limited(algorithm, unit="cost"))
    _, block = lease(world)
    world.ask("reset", NOW_US + MS, ENDPOINT, "*")
    world.check(NOW_US + 2 * MS, cost=200)
    left = remaining(world, NOW_US + 2 * MS)
    assert give_back(world, NOW_US + 2 * MS, spent(block, 0)) == 1
    assert remaining(world, NOW_US + 2 * MS) == left


@every_kind
def test_after_a_change_of_the_plan_only_what_was_spent_is_accounted(world: World, algorithm: Any) -> None:
    world.limit_by(limited(algorithm))
    _, block = lease(world)
    world.limit_by(limited(algorithm), limited(THOUSAND, "new"))
    left = remaining(world, NOW_US + MS)
    assert give_back(world, NOW_US + MS, spent(block, 40)) == 1
    assert remaining(world, NOW_US + MS) == left
    assert usage_of(world.client, "a") == 1 + 40


@every_kind
def test_after_the_clock_went_back_only_what_was_spent_is_accounted(world: World, algorithm: Any) -> None:
    world.limit_by(limited(algorithm))
    _, block = lease(world)
    left = remaining(world, NOW_US - MS)
    assert give_back(world, NOW_US - MS, spent(block, 40)) == 1
    assert remaining(world, NOW_US - MS) == left
    assert usage_of(world.client, "a") == 1 + 40


@every_kind
def test_a_flush_of_functions_changes_nothing(world: World, algorithm: Any) -> None:
    world.limit_by(limited(algorithm))
    _, block = lease(world)
    world.client.function_flush()
    world.client.function_load(lua_library.simulation_source())
    _, second = lease(world, NOW_US + 1)
    assert second.receipt != block.receipt
    left = remaining(world, NOW_US + MS)
    assert [give_back(world, NOW_US + MS, spent(block, 40)) for _ in range(2)] == [1, 0]
    assert remaining(world, NOW_US + MS) == left + 60


def test_a_shorter_bound_keeps_what_longer_leases_were_charged(world: World) -> None:
    bucket = TokenBucket(1_000, SECOND_US, 4_000)
    truth = BucketTruth(bucket)
    world.limit_by(limited(bucket, lease_ms=1_000, unit="cost"))
    _, long = lease(world, want=100)
    world.limit_by(limited(bucket, lease_ms=10, unit="cost"))
    _, short = lease(world, NOW_US + MS, want=300)
    assert (long.lasts_us, short.lasts_us) == (SECOND_US, 10 * MS)
    give_back(world, NOW_US + 2 * MS, spent(short, 0))
    end_us = NOW_US + long.lasts_us
    truth.serve(end_us, 100)
    assert world.check(end_us, 3_899).allowed  # all but the request of the second lease
    truth.serve(end_us, 3_899)
    assert not world.check(end_us).allowed


def test_a_spent_block_is_accounted_for_a_suspended_tenant(world: World) -> None:
    world.limit_by(limited(THOUSAND))
    _, first = lease(world)
    _, second = lease(world)
    world.tenants = {TENANT: Tenant(1, TENANT, TIER, suspended=True)}
    world.limit_by(limited(THOUSAND))
    assert [give_back(world, NOW_US, spent(first, 40)) for _ in range(2)] == [1, 0]
    reply, _ = lease(world, settle=spent(second, 5))
    assert reply.reason == "suspended"
    assert usage_of(world.client, "a") == 2 + 40 + 5


def test_a_receipt_of_a_tenant_that_is_gone_settles_nothing(world: World) -> None:
    world.limit_by(limited(THOUSAND))
    _, block = lease(world)
    world.tenants = {TENANT: Tenant(7, TENANT, TIER)}  # deleted, and created anew
    world.limit_by(limited(THOUSAND))
    assert give_back(world, NOW_US, spent(block, 40)) == 0
    assert lease(world, settle=spent(block, 40))[0].allowed


def test_a_receipt_older_than_two_minutes_settles_nothing(world: World) -> None:
    world.limit_by(limited(THOUSAND))
    _, block = lease(world)
    assert give_back(world, NOW_US + 120 * SECOND_US, spent(block, 40)) == 0
    assert give_back(world, NOW_US + 120 * SECOND_US - 1, spent(block, 40)) == 1
    (mark,) = world.client.keys("hr:{*}:r:*")
    assert 0 < world.client.pttl(mark) <= 120_000


@pytest.mark.parametrize(
    "numbers",
    [(101, 0, 0, 0), (0, 101, 0, 0), (0, 0, 101, 0), (0, 0, 0, 101), (60, 0, 41, 0), (0, 1, 0, 100), (10**9,) * 4],
)
def test_more_than_the_block_had_is_an_error(world: World, numbers: tuple[int, int, int, int]) -> None:
    world.limit_by(limited(THOUSAND))
    _, block = lease(world)
    before = world.state()
    with pytest.raises(ResponseError, match="HRARGS more was spent or comes back than the block had"):
        give_back(world, NOW_US, Settlement(block.receipt, *numbers))
    with pytest.raises(ResponseError, match="HRARGS more was spent or comes back than the block had"):
        lease(world, settle=Settlement(block.receipt, *numbers))
    assert (world.state(), usage_of(world.client, "a")) == (before, 1)


def test_a_receipt_of_another_subject_is_an_error(world: World) -> None:
    world.settings["sample_per_1024"] = 0
    world.limit_by(limited(THOUSAND, subject=Subject.parse("ip")))
    _, block = lease(world, ip="1.1.1.1")
    lease(world, ip="2.2.2.2")
    before = world.state()
    with pytest.raises(ResponseError, match="HRARGS this receipt belongs to another subject"):
        give_back(world, NOW_US, spent(block, 0), ip="2.2.2.2")
    with pytest.raises(ResponseError, match="HRARGS this receipt belongs to another subject"):
        lease(world, settle=spent(block, 0), ip="2.2.2.2")
    assert world.state() == before
    assert give_back(world, NOW_US, spent(block, 0), ip="1.1.1.1") == 1


@pytest.mark.parametrize("receipt", ["x", "1:2", "1:00001:ab:1:1:ab", "1" * 1_001, "1:00001:ab:1:1:ab:1:x"])
def test_what_is_no_receipt_is_an_error(world: World, receipt: str) -> None:
    world.limit_by(limited(THOUSAND))
    with pytest.raises(ResponseError, match="HRARGS this is no receipt of hr_lease"):
        give_back(world, NOW_US, Settlement(receipt))


def test_numbers_without_a_receipt_are_an_error(world: World) -> None:
    world.limit_by(limited(THOUSAND))
    with pytest.raises(ResponseError, match="HRARGS what was spent and what comes back need the receipt"):
        lease(world, settle=Settlement("", 1, 1))
    for words in ((0, 0, 0, 0, ""), (0, 0, 0), (0, 0, 0, 0, "", "ip")):
        with pytest.raises(ResponseError, match="HRARGS give tenant, endpoint, calls and cost spent"):
            world.ask("return", NOW_US, ENDPOINT, *words)
    assert world.usage() == {}


def test_an_invented_receipt_gives_back_no_more_than_is_charged(world: World) -> None:
    world.limit_by(limited(THOUSAND, unit="cost"))
    _, block = lease(world)
    world.check(cost=700)
    invented = block.receipt.split(":")
    invented[3:5] = ["1000000000", "1000000000"]
    invented[-1] = "9007199254740991"
    give_back(world, NOW_US, Settlement(":".join(invented), 0, 0, 10**9, 10**9))
    assert world.check(cost=1).remaining <= 1_000


@pytest.mark.parametrize("algorithm", [LEASED[0], LEASED[3]], ids=lambda one: one.name)
def test_a_refund_beside_a_lease_gives_back_only_what_is_safe(world: World, algorithm: Any) -> None:
    """The lease's charge may rest on the refunded one: a bucket waits until all leases are over."""
    world.limit_by(limited(algorithm))
    receipt = world.check(rows=True).receipt
    lease(world)
    assert world.ask("refund", NOW_US + MS, ENDPOINT, receipt) == (0 if algorithm.kind == "t" else 1)


def test_after_a_refund_earlier_leases_give_nothing_back(world: World) -> None:
    world.limit_by(limited(TokenBucket(1_000, SECOND_US, 4_000)))
    _, block = lease(world, want=500)
    after_us = NOW_US + 200 * MS
    receipt = world.check(after_us, rows=True).receipt
    assert world.ask("refund", after_us, ENDPOINT, receipt) == 1
    left = remaining(world, after_us)
    assert give_back(world, after_us, spent(block, 0)) == 1
    assert remaining(world, after_us) == left


def test_a_block_may_come_back_over_the_memory_limit(world: World) -> None:
    world.limit_by(limited(THOUSAND))
    _, block = lease(world)
    world.client.config_set("maxmemory", 1)
    try:
        with pytest.raises(ResponseError, match="maxmemory"):
            lease(world)
        assert give_back(world, NOW_US + MS, spent(block, 40)) == 1
    finally:
        world.client.config_set("maxmemory", 0)


def test_remembered_denials_are_accounted_with_their_limit(world: World) -> None:
    world.limit_by(Limit("a", FixedWindow(1, SECOND_US), Subject.parse("tenant")))
    world.check()
    world.check()
    assert world.ask("report", NOW_US, ENDPOINT, "d", 9, 12, "a") == 1
    denied = keys.base36(world.numbers["a"])
    assert world.usage()[f"00001001d{denied}"] == (1 + 12) * 2**24 + 1 + 9
    assert world.ask("report", NOW_US, ENDPOINT, "d", 2, 2, "gone") == 1
    assert world.usage()["00001001d"] == 2 * 2**24 + 2


@pytest.mark.parametrize("words", [("d", 1, 1), ("g", 1, 1, "a"), ("a", 1, 1), ("d", 0, 1, "a"), ("d", 1, 2**39, "a")])
def test_a_senseless_report_is_an_error(world: World, words: tuple[Any, ...]) -> None:
    world.limit_by(limited(THOUSAND))
    with pytest.raises(ResponseError, match="HRARGS give tenant, endpoint, g or c, count and cost; or d"):
        world.ask("report", NOW_US, ENDPOINT, *words)
    assert world.usage() == {}


def test_blocks_are_told_apart_at_the_same_moment(world: World) -> None:
    world.limit_by(limited(FixedWindow(10_000, SECOND_US)))
    blocks: list[Block] = [lease(world)[1] for _ in range(3)]
    assert len({block.receipt for block in blocks}) == 3
    assert [give_back(world, NOW_US, spent(block, 0)) for block in blocks] == [1, 1, 1]
    assert remaining(world, NOW_US) == 10_000 - 3 - 1
