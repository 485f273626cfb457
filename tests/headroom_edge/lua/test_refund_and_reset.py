"""Giving back, and forgetting."""

from typing import Any

import pytest
from redis.exceptions import ResponseError

from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.bucket import TokenBucket
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sharing import Pool
from headroom_edge.algorithms.sliding_counter import SlidingCounter
from headroom_edge.algorithms.sliding_log import SlidingLog
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit
from tests.headroom_edge.lua.world import NOW_US, World

WHOLE = Subject.parse("tenant")
ALGORITHMS: list[Any] = [
    TokenBucket(1, SECOND_US, 3),
    FixedWindow(3, SECOND_US),
    SlidingLog(3, SECOND_US),
    SlidingCounter(3, SECOND_US),
]


def refund(world: World, receipt: str, now_us: int = NOW_US) -> int:
    return int(world.ask("refund", now_us, "rides:search", receipt))


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda one: one.name)
def test_a_refund_gives_back_once(world: World, algorithm: Any) -> None:
    world.limit_by(Limit("a", algorithm, WHOLE))
    world.check()
    receipt = world.check(NOW_US + 1, rows=True).receipt
    assert (refund(world, receipt, NOW_US + 2), refund(world, receipt, NOW_US + 2)) == (1, 0)
    assert world.check(NOW_US + 2).remaining == 1


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda one: one.name)
def test_a_late_refund_gives_nothing(world: World, algorithm: Any) -> None:
    world.limit_by(Limit("a", algorithm, WHOLE))
    receipt = world.check(rows=True).receipt
    for _ in range(3):
        world.check(NOW_US + 2 * SECOND_US)
    assert refund(world, receipt, NOW_US + 2 * SECOND_US) == 0


@pytest.mark.parametrize("algorithm", [TokenBucket(1, SECOND_US, 10), Pool(1, SECOND_US, 14)], ids=lambda one: one.name)
def test_what_has_flowed_back_already_is_not_refunded(world: World, algorithm: Any) -> None:
    world.limit_by(Limit("a", algorithm, WHOLE, unit="cost"))
    receipt = world.check(cost=10, rows=True).receipt
    assert world.check(NOW_US + 9 * SECOND_US, cost=8).allowed
    assert refund(world, receipt, NOW_US + 9 * SECOND_US) == 1
    assert world.peek(NOW_US + 9 * SECOND_US, cost=1, rows=True).remaining <= 3


def test_a_refund_after_a_change_of_policy_gives_nothing(world: World) -> None:
    world.limit_by(Limit("a", ALGORITHMS[0], WHOLE))
    receipt = world.check(rows=True).receipt
    world.limit_by(Limit("a", TokenBucket(1, SECOND_US, 5), WHOLE))
    assert refund(world, receipt) == 0


@pytest.mark.parametrize("receipt", ["", "x", "1:2", "1:zz:1", "-1:ab:1", "1:ab:1:x", "1:ab:1" + ":9" * 800])
def test_what_is_no_receipt_is_an_error(world: World, receipt: str) -> None:
    world.limit_by(Limit("a", ALGORITHMS[0], WHOLE))
    with pytest.raises(ResponseError, match="HRARGS give tenant, endpoint, the receipt"):
        refund(world, receipt)


@pytest.mark.parametrize("receipt", ["1:ab:1", "1:00000000:1:99999999999999999999", "9999999999999999:ab:1"])
def test_an_invented_receipt_gives_nothing(world: World, receipt: str) -> None:
    world.limit_by(Limit("a", ALGORITHMS[0], WHOLE))
    world.check()
    assert refund(world, receipt) == 0
    assert world.check().remaining == 1


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda one: one.name)
def test_a_reset_forgets_one_limit_and_no_other(world: World, algorithm: Any) -> None:
    world.limit_by(Limit("a", algorithm, WHOLE), Limit("b", TokenBucket(1, SECOND_US, 9), WHOLE))
    world.check()
    assert world.ask("reset", NOW_US, "rides:search", "a") == 1
    assert {row[0]: row[4] for row in world.check(rows=True).rows} == {"a": 2, "b": 7}


def test_a_reset_of_a_subject_without_state_resets_nothing(world: World) -> None:
    world.limit_by(Limit("a", ALGORITHMS[0], Subject.parse("ip")))
    world.check(ip="1.1.1.1")
    assert world.ask("reset", NOW_US, "rides:search", "*", "ip", "2.2.2.2") == 0


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda one: one.name)
def test_what_was_reset_gives_nothing_back(world: World, algorithm: Any) -> None:
    world.limit_by(Limit("a", algorithm, WHOLE))
    receipt = world.check(rows=True).receipt
    assert world.ask("reset", NOW_US, "rides:search", "a") == 1
    assert refund(world, receipt) == 0
