"""What once went wrong: each is the shortest way to it."""

from dataclasses import replace
from typing import Any

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
from quotas.policies.spec import Limit
from tests.headroom_edge.lua.world import NOW_US, TENANT, World, tier_policy, times

WHOLE = Subject.parse("tenant")
HOUR_US = 3_600 * SECOND_US
SHARD = keys.shard_of(TENANT)


def hourly(name: str, size: int, subject: Subject = WHOLE, **options: Any) -> Limit:
    return Limit(name, TokenBucket(1, HOUR_US, size), subject, **options)


def test_counters_that_cannot_be_written_do_not_stop_the_store(world: World) -> None:
    world.limit_by(hourly("a", 5))
    world.client.delete(keys.usage(SHARD))
    world.client.set(keys.usage(SHARD), "of another type")
    assert world.check().allowed
    assert world.check(cost=2**21).allowed


def test_a_report_that_would_overflow_is_an_error(world: World) -> None:
    world.limit_by(hourly("a", 5))
    with pytest.raises(ResponseError, match="HRARGS give tenant, endpoint, g or c, count and cost"):
        world.ask("report", NOW_US, "rides:search", "g", 1, 2**39)
    assert world.ask("report", NOW_US, "rides:search", "g", 1, 2**39 - 1) == 1


def test_a_second_candidate_does_not_pass_for_the_promoted_one(world: World) -> None:
    first = TokenBucket(1, HOUR_US, 10)
    world.limit_by(hourly("live", 20, candidate=first))
    promoted = Limit("live", first, WHOLE, adopts_candidate=True)
    world.limit_by(promoted)
    for _ in range(10):
        assert world.check().allowed
    second = replace(promoted, candidate=TokenBucket(1, HOUR_US, 8))
    world.limit_by(second)
    world.check()
    world.limit_by(second, hourly("other", 99))  # the record is written anew
    assert not world.check().allowed


def test_a_promoted_log_keeps_its_entries_where_an_endpoint_replaces_it(world: World) -> None:
    log = SlidingLog(6, HOUR_US)
    own = tier_policy(hourly("log", 50), endpoint="rides:book")
    world.configure(tier_policy(Limit("log", SlidingLog(9, HOUR_US), WHOLE, candidate=log)), own)
    for step in range(5):
        world.check(NOW_US + step)
    promoted = Limit("log", log, WHOLE, adopts_candidate=True)
    world.configure(tier_policy(promoted, hourly("beside", 99)), own)
    world.check(NOW_US + 5, endpoint="rides:book")
    assert [world.check(NOW_US + 6 + step).allowed for step in range(3)] == [True, False, False]


def test_strangers_do_not_share_what_a_candidate_counted(world: World) -> None:
    candidate = TokenBucket(1, HOUR_US, 10)
    world.limit_by(hourly("live", 4, Subject.parse("ip"), unit="cost", candidate=candidate))
    for number in range(3):
        world.check(cost=5, ip=f"10.0.0.{number}")
    candidate_id = base36(world.numbers["live~candidate"])
    assert world.usage()[f"00001001y{candidate_id}"] == times(3, cost=5)


def test_a_late_refund_is_late_also_when_another_record_is_gone(world: World) -> None:
    quick = Limit("quick", TokenBucket(1, SECOND_US, 3), WHOLE)
    world.limit_by(hourly("slow", 3, Subject.parse("ip")), quick)
    receipt = world.check(rows=True, ip="1.1.1.1").receipt
    for key in world.state():
        if b"/ip" in key:
            world.client.delete(key)
    assert world.ask("refund", NOW_US + 10 * SECOND_US, "rides:search", receipt, "ip", "1.1.1.1") == 0


@pytest.mark.parametrize("algorithm", [TokenBucket(1, HOUR_US, 3), FixedWindow(3, HOUR_US)], ids=lambda one: one.name)
def test_what_a_bypass_let_through_cannot_be_refunded(world: World, algorithm: Any) -> None:
    world.limit_by(Limit("a", algorithm, WHOLE))
    for _ in range(3):
        world.check()
    world.call("bypass", NOW_US, SHARD, f'[{{"scope":"all","until_us":{NOW_US + 10}}}]')
    receipt = world.check(rows=True).receipt
    assert world.ask("refund", NOW_US, "rides:search", receipt) == 0
    assert not world.check(NOW_US + 10).allowed


def test_one_receipt_is_spent_whatever_the_order_of_the_dimensions(world: World) -> None:
    world.limit_by(hourly("a", 9, Subject.parse("user+ip")))
    receipt = world.check(rows=True, user="u", ip="1.1.1.1").receipt
    told = [("user", "u", "ip", "1.1.1.1"), ("ip", "1.1.1.1", "user", "u"), ("ip", "1.1.1.1", "user", "u", "x", "y")]
    assert [world.ask("refund", NOW_US, "rides:search", receipt, *pairs) for pairs in told] == [1, 0, 0]


def test_registered_keys_do_not_overflow_behind_a_fallback(world: World) -> None:
    world.settings["subject_cap"] = 1
    world.limit_by(hourly("a", 9, Subject.parse("key|ip")))
    world.client.hset(keys.registered(SHARD), mapping={name: keys.tenant_number(1) for name in ("k1", "k2", "k3")})
    world.check(key="stranger")
    assert [world.check(key=name).remaining for name in ("k1", "k2", "k3")] == [8, 8, 8]


def test_a_switch_without_a_name_is_refused(world: World) -> None:
    world.limit_by(hourly("a", 9))
    with pytest.raises(ResponseError, match="HRARGS every switch needs scope, name and until_us"):
        world.call("bypass", NOW_US, SHARD, f'[{{"scope":"limit","until_us":{NOW_US + 10}}}]')
    assert world.check().allowed


@pytest.mark.parametrize("junk", [b"", b"\1", b"\x81junk", b"\xff" * 300])
def test_a_record_that_cannot_be_read_begins_anew(world: World, junk: bytes) -> None:
    world.limit_by(hourly("a", 9), hourly("b", 9))
    world.check()
    (key,) = world.state()
    world.client.set(key, junk)
    assert world.check().remaining == 8
    world.client.set(key, world.client.get(key)[:-1])  # type: ignore[index]
    assert world.check(rows=True).remaining == 8


def test_holders_beside_a_moved_log_are_left_alone(world: World) -> None:
    slots = Limit("a-slots", Concurrency(2, 250_000), WHOLE)
    world.limit_by(slots, Limit("b-log", SlidingLog(9, 250_000), WHOLE, mode="shadow"))
    world.check(holder="h1")
    assert world.check(NOW_US - 61 * SECOND_US, holder="h2").allowed
