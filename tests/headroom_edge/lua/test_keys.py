"""A2: no subject leaves its tenant's shard, meets another's record, or makes a long key."""

import re
from ipaddress import IPv6Address
from itertools import islice, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headroom_edge import keys
from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.bucket import TokenBucket
from headroom_edge.algorithms.concurrency import Concurrency
from headroom_edge.algorithms.sliding_log import SlidingLog
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit, Tenant
from tests.headroom_edge.lua.world import NOW_US, TENANT, TIER, World, tier_policy
from tests.sweeps import examples

HOSTILE = [
    *("{}", "}{other}", "{17}", ":", "a:b", "*", "?", "[a]", "\0", "a\0b", "\r\n", "a\r\nSET x 1\r\n", ",", "#", "~"),
    *("", " ", "a", "A", "a,b", "é", "e\u0301", "\u0661", "x" * 32, "x" * 33, "x" * 2**20, "#" + "a" * 40),
    *("~20010db800000000", "1.2.3.4", "absent", "overflow"),
]


def by(*subjects: str) -> tuple[Limit, ...]:
    """Each record lives an hour, because not every world here stops the store's clock."""
    slow = TokenBucket(1, 3_600 * SECOND_US, 9)
    return tuple(Limit(f"l{n}", slow, Subject.parse(text)) for n, text in enumerate(subjects))


def records(world: World) -> set[bytes]:
    return set(world.state())


@pytest.mark.parametrize("subject", ["user", "user+ip", "user|ip", "ip"])
def test_hostile_values_never_collide(world: World, subject: str) -> None:
    world.limit_by(*by(subject))
    dimensions = subject.replace("|", "+").split("+")
    for value in HOSTILE:
        world.check_subject(dict.fromkeys(dimensions, value))
    world.check()
    assert len(records(world)) == len(HOSTILE) + 1
    assert all(key.startswith(keys.tenant_prefix(TENANT).encode()) for key in records(world))


def test_keys_stay_within_128_bytes(world: World) -> None:
    long = "+".join(["a" * 32, "b" * 32, "c" * 32])
    limits = (
        Limit("log", SlidingLog(5, SECOND_US), Subject.parse(long)),
        Limit("slots", Concurrency(5, SECOND_US), Subject.parse(long)),
    )
    world.limit_by(*limits)
    for value in HOSTILE[:-4]:
        world.check_subject(dict.fromkeys(long.split("+"), value))
    assert max(map(len, records(world))) <= 128
    assert len(records(world)) == 3 * len(HOSTILE[:-4])


def test_a_combination_does_not_mix_its_values(world: World) -> None:
    world.limit_by(*by("user+ip"))
    for user, ip in (("a", "b,c"), ("a,b", "c"), ("", "a"), ("a", ""), ("b", "a")):
        world.check(user=user, ip=ip)
    world.check(user="a")
    world.check(ip="a")
    world.check()
    assert len(records(world)) == 8


def test_a_fallback_applies_only_where_the_first_was_not_sent(world: World) -> None:
    world.limit_by(*by("key|ip"))
    world.check(key="k", ip="1.2.3.4")
    world.check(key="k", ip="5.6.7.8")
    assert world.check(key="k").remaining == 6
    assert world.check(ip="1.2.3.4").remaining == 8
    assert world.check(ip="k").remaining == 8  # an address that reads like the key


def test_limits_of_one_name_on_other_subjects_keep_apart(world: World) -> None:
    world.limit_by(*by("ip", "key", "key|ip"))
    world.check(ip="x", key="x")
    assert len(records(world)) == 3


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:ffff", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("2001:DB8::1", "2001:0db8:0000:0000:1:2:3:4", True),
        ("fe80::1%eth0", "fe80::2", True),
        ("::ffff:1.2.3.4", "1.2.3.4", True),
        ("::ffff:102:304", "1.2.3.4", True),
        ("::1.2.3.4", "::1", True),
        ("2001:db8::1", "2001:db8::1::2", False),
        ("1:2:3:4:5:6:7", "1:2:3:4:5:6:8", False),
        ("1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8", False),
        ("12345::", "1234::", False),
        ("::", "0:0:0:0:1:1:1:1", True),
    ],
)
def test_ipv6_counts_by_its_network(world: World, one: str, other: str, same: bool) -> None:
    world.limit_by(*by("ip"))
    world.check(ip=one)
    world.check(ip=other)
    assert len(records(world)) == (1 if same else 2)


@given(address=st.ip_addresses(v=6))
@settings(max_examples=examples(200))
def test_the_network_is_the_one_that_python_finds(world_of_addresses: World, address: IPv6Address) -> None:
    world_of_addresses.client.flushdb()
    world_of_addresses.revision = 0
    world_of_addresses.limit_by(*by("ip"))
    world_of_addresses.check(ip=str(address))
    world_of_addresses.check(ip=address.exploded)
    (key,) = records(world_of_addresses)
    mapped = address.ipv4_mapped
    assert key.rsplit(b":", 1)[1].decode() == (str(mapped) if mapped else "~" + address.packed[:8].hex())


@pytest.fixture(scope="module")
def world_of_addresses(valkey_server: object) -> World:
    return World(valkey_server.client())  # type: ignore[attr-defined]


def test_fuzzed_values_never_collide(world: World) -> None:
    make_a_record_each(world, 10_000)


@pytest.mark.faults_long
@pytest.mark.timeout(3_600)
def test_a_million_fuzzed_values_never_collide(world: World) -> None:
    make_a_record_each(world, 1_000_000)


def make_a_record_each(world: World, count: int) -> None:
    world.settings["subject_cap"] = 10**9
    hourly = TokenBucket(1, 3_600 * SECOND_US, 9)  # nothing expires before it is counted
    world.limit_by(Limit("a", hourly, Subject.parse("user")))
    alphabet = ["{", "}", ":", "*", "#", "~", ",", "a", "A", "\0", "\r\n", "é", "e\u0301", "/", "%", "."]
    values = {"".join(letters) for letters in islice(product(alphabet, repeat=5), count)}
    shard = keys.shard_of(TENANT)
    for start in range(0, len(values), 500):
        with world.client.pipeline(transaction=False) as pipe:
            for value in list(values)[start : start + 500]:
                pipe.fcall("hs_check", 1, keys.shard_prefix(shard), NOW_US, TENANT, "rides:search", 1, "user", value)
            pipe.execute()
    found = sum(1 for _ in world.client.scan_iter(match=f"{keys.shard_prefix(shard)}:00001*", count=1000))
    assert found == len(values)


def test_python_and_lua_spell_the_same_keys(world: World) -> None:
    world.endpoints = tuple(f"svc:op{n}" for n in range(40))
    world.tenants = {TENANT: Tenant(36**3, TENANT, TIER)}
    world.configure(tier_policy(*by("tenant"), endpoint="svc:op37"))
    world.check(endpoint="svc:op37")
    (key,) = records(world)
    prefix = keys.tenant_prefix(TENANT)
    assert key.decode() == f"{prefix}:{keys.tenant_number(36**3)}:{keys.endpoint_number(38)}"
    assert re.fullmatch(r"hr:\{\d+\}:01000:012", key.decode())
