"""What a check leaves behind for the drain, for calibration, and to explain a 429."""

from typing import Any

from headroom_edge import keys
from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.bucket import TokenBucket
from headroom_edge.keys import base36
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit
from tests.headroom_edge.lua.world import NOW_US, TENANT, World, times

SHARD = keys.shard_of(TENANT)


def bucket(size: int, subject: str = "tenant", **options: Any) -> Limit:
    return Limit("a", TokenBucket(1, SECOND_US, size), Subject.parse(subject), **options)


def fields(world: World) -> dict[str, int]:
    found: Any = world.client.hgetall(keys.usage(SHARD))
    return {name.decode(): int(value) for name, value in found.items() if name != b"_"}


def items(world: World, key: str) -> list[str]:
    found: Any = world.client.lrange(key, 0, -1)
    return [item.decode() for item in found]


def test_count_and_cost_are_one_number_per_second(world: World) -> None:
    world.limit_by(bucket(10, unit="cost"))
    world.check(cost=3)
    world.check(cost=4)
    world.check(NOW_US + SECOND_US, cost=1)
    first, second = (f"s{NOW_US // SECOND_US + step:08x}00001001a" for step in (0, 1))
    assert fields(world) == {first: 7 * 2**24 + 2, second: times(1)}


def test_an_endpoint_nobody_registered_counts_as_other(world: World) -> None:
    world.limit_by(bucket(10))
    world.check(endpoint="made:up")
    assert world.usage() == {"00001000a": times(1)}


def test_costs_too_large_for_a_double_are_still_exact(world: World) -> None:
    world.limit_by(bucket(5, unit="requests"))
    world.check(cost=999_999_999)
    world.check(cost=1_000_000_000)
    assert world.usage() == {"00001001a": 1_999_999_999 * 2**24 + 2}


def test_a_cell_that_would_overflow_goes_on_in_a_further_field(world: World) -> None:
    world.limit_by(Limit("a", TokenBucket(1000, SECOND_US, 1000), Subject.parse("tenant"), unit="requests"))
    for _ in range(600):
        world.check(cost=1_000_000_000)
    found = world.usage()
    assert set(found) == {"00001001a", "00001001a+"}
    assert sum(value % 2**24 for value in found.values()) == 600
    assert sum(value >> 24 for value in found.values()) == 600 * 10**9


def test_counting_turns_coarse_when_nobody_drains(world: World) -> None:
    world.limit_by(bucket(1000))
    for second in range(0, 300, 10):
        world.check(NOW_US + second * SECOND_US)
    fine = [name for name in fields(world) if name.startswith("s")]
    coarse = [name for name in fields(world) if name.startswith("m")]
    assert (len(fine), len(coarse)) == (7, 4)
    assert sum(value % 2**24 for value in fields(world).values()) == 30


def test_a_batch_is_handed_over_until_it_is_done(world: World) -> None:
    world.limit_by(bucket(1000))
    assert world.call("drain", NOW_US, SHARD, "TAKE", "b0") == b""
    world.check()
    assert world.call("drain", NOW_US, SHARD, "TAKE", "b1") == b"b1"
    world.check()
    assert world.call("drain", NOW_US, SHARD, "TAKE", "b2") == b"b1"  # the first one still waits
    assert world.call("drain", NOW_US, SHARD, "DONE", "b2") == 0
    assert world.call("drain", NOW_US, SHARD, "DONE", "b1") == 1
    assert world.usage() == {"00001001a": times(1)}
    assert world.call("drain", NOW_US, SHARD, "TAKE", "b2") == b"b2"
    assert world.usage() == {}


def test_the_last_denials_of_a_tenant_are_kept(world: World) -> None:
    world.limit_by(bucket(1, "ip"))
    for _ in range(200):
        world.check(ip="1.2.3.4")
    kept = items(world, keys.denials(SHARD, "00001"))
    assert 100 <= len(kept) <= 128
    limit = base36(world.numbers["a"])
    assert kept[0] == f"{NOW_US} 001 {limit} limit 1 {SECOND_US} 1 /ip:1.2.3.4"
    assert 0 < world.client.pttl(keys.denials(SHARD, "00001")) <= 7 * 86_400_000


def test_all_arrivals_of_a_sampled_subject_are_kept(world: World) -> None:
    world.settings["sample_per_1024"] = 512
    world.limit_by(bucket(2, "ip"))
    for ip in range(100):
        for step in range(3):
            world.check(NOW_US + step, ip=f"10.0.0.{ip}")
    arrivals = [item.split() for item in items(world, f"{keys.shard_prefix(SHARD)}:a")]
    subjects = {subject for _, subject, *_ in arrivals}
    assert 25 < len(subjects) < 75
    # The first request makes the record, and the sample with it.
    assert all(sum(subject == s for _, s, *_ in arrivals) == 3 for subject in subjects)
    assert [(time, outcome) for _, _, time, _, outcome in arrivals[:3]] == [
        (str(NOW_US), "a"),
        (str(NOW_US + 1), "a"),
        (str(NOW_US + 2), "d"),
    ]


def test_degraded_decisions_are_told_afterwards(world: World) -> None:
    world.limit_by(bucket(10))
    assert world.ask("report", NOW_US, "rides:search", "g", 5, 7) == 1
    assert world.usage() == {"00001001g": 7 * 2**24 + 5}
