"""A3: invented subjects cannot fill the store; known ones and registered keys do not notice."""

from headroom_edge import keys
from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.bucket import TokenBucket
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit
from tests.headroom_edge.lua.world import NOW_US, TENANT, World

HOUR_US = 3_600 * SECOND_US


def per(subject: str) -> Limit:
    return Limit("a", TokenBucket(1, SECOND_US, 2), Subject.parse(subject))


def test_subjects_past_the_cap_share_one_record(world: World) -> None:
    world.settings["subject_cap"] = 50
    world.limit_by(Limit("a", TokenBucket(1, HOUR_US, 2), Subject.parse("ip")))  # none expires meanwhile
    for number in range(500):
        world.check(ip=f"10.0.{number // 250}.{number % 250}")
    assert len(world.state()) == 51
    reply = world.check(ip="9.9.9.9")
    assert (reply.allowed, reply.reason) == (False, "overflow")


def test_known_subjects_never_overflow(world: World) -> None:
    world.settings["subject_cap"] = 2
    world.limit_by(per("ip"))
    for ip in ("1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4", "5.5.5.5"):
        world.check(ip=ip)
    reply = world.check(ip="1.1.1.1")
    assert (reply.allowed, reply.remaining) == (True, 0)


def test_registered_keys_never_overflow(world: World) -> None:
    world.settings["subject_cap"] = 1
    world.limit_by(per("key"))
    shard = keys.shard_of(TENANT)
    world.client.hset(keys.registered(shard), "hrk_known", keys.tenant_number(1))
    world.client.hset(keys.registered(shard), "hrk_foreign", keys.tenant_number(2))
    for key in ("x1", "x2", "x3", "x4"):
        world.check(key=key)
    assert world.check(key="hrk_known").remaining == 1
    assert world.check(key="hrk_foreign").reason == "overflow"


def test_the_cap_refills_within_the_hour(world: World) -> None:
    world.settings["subject_cap"] = 10
    world.limit_by(per("ip"))
    for number in range(20):
        world.check(ip=f"10.0.0.{number}")
    assert len(world.state()) == 11
    for number in range(20, 40):
        world.check(NOW_US + HOUR_US // 2, ip=f"10.0.0.{number}")
    assert len(world.state()) == 16


def test_a_denied_stranger_costs_the_cap_nothing(world: World) -> None:
    world.settings["subject_cap"] = 10
    world.limit_by(per("ip"), Limit("whole", TokenBucket(1, SECOND_US, 1), Subject.parse("tenant")))
    world.check(ip="1.1.1.1")
    for number in range(50):
        assert world.check(ip=f"10.0.0.{number}").reason == "limit"
    assert world.check(NOW_US + 9 * SECOND_US, ip="10.0.0.1").reason == "ok"


def test_a_clock_gone_back_does_not_close_the_door(world: World) -> None:
    world.settings["subject_cap"] = 10
    world.limit_by(per("ip"))
    world.check(ip="1.1.1.1")
    assert world.check(NOW_US - 2 * HOUR_US, ip="2.2.2.2").reason == "ok"
    assert len(world.state()) == 2
