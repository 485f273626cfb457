"""Where leases are in use, from the heartbeats of processes that lease."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import redis

from headroom_edge.algorithms.base import Algorithm
from quotas.leases import LeaseUse, leases_of, leases_on, longest_lease_ms
from quotas.policies.resolve import Effective
from quotas.policies.spec import Limit
from tests.quotas.heartbeats import fall_silent, heartbeat, leasing
from tests.quotas.policies.worlds import limit
from tests.quotas.world import GET, PAY

QUEUE = limit("queue", "leaky_bucket", rate=5, queue=9)
SLOTS = limit("slots", "concurrency", limit=5, hold="9s")


def bucket(lease_ms: int | None = None, name: str = "burst", **about: Any) -> Limit:
    return limit(name, lease_ms=lease_ms, **about)


def candidate(one: Limit) -> Algorithm:
    return one.algorithm


@pytest.mark.parametrize(
    ("limits", "ms"),
    [
        ([], 100),
        ([bucket()], 100),
        ([bucket(250)], 250),
        ([bucket(250), bucket()], 100),
        ([bucket(250), bucket(20), bucket()], 20),
        ([bucket(250), bucket(0)], 0),
        ([bucket(), bucket(0, mode="shadow")], 0),
        ([bucket(), bucket(0, mode="off")], 100),
        ([bucket(), QUEUE], 0),
        ([bucket(), SLOTS], 0),
        ([bucket(candidate=candidate(QUEUE))], 0),
    ],
)
def test_the_shortest_lease_of_all_limits_counts(limits: list[Limit], ms: int) -> None:
    assert longest_lease_ms(limits) == ms


class TestOnAnEndpoint:
    def test_it_says_how_many_processes_and_how_late_an_edit_arrives(self, valkey: redis.Redis) -> None:
        leasing(valkey, "one", GET, PAY)
        leasing(valkey, "two", GET, ms=1_000)
        leasing(valkey, "three", PAY)
        heartbeat(valkey, "four")
        found = leases_on(GET, [bucket(250)])
        assert found == LeaseUse(2, 250, (GET,))
        assert found.words == "Leased by 2 processes"
        assert found.price == "an edit arrives up to 250 ms later, and a process that dies may waste up to one block."

    def test_without_a_lease_there_is_nothing_to_say(self, valkey: redis.Redis) -> None:
        heartbeat(valkey, "one")
        leasing(valkey, "two", PAY)
        leasing(valkey, "three", GET)
        fall_silent(valkey, "three")
        assert leases_on(GET, [bucket()]) is None

    def test_what_the_limits_forbid_is_not_leased(self, valkey: redis.Redis) -> None:
        leasing(valkey, "one", GET)
        assert leases_on(GET, [bucket(), bucket(0)]) is None

    def test_a_process_with_more_endpoints_than_it_names_may_lease_here_too(self, valkey: redis.Redis) -> None:
        leasing(valkey, "one", PAY, more=3, ms=50)
        found = leases_on(GET, [bucket()])
        assert found == LeaseUse(0, 50, (GET,), perhaps=1)
        assert found.words == "Perhaps leased by 1 process"
        leasing(valkey, "two", GET)
        both = leases_on(GET, [bucket()])
        assert both is not None
        assert (both.words, both.longest_ms) == ("Leased by 1 process, perhaps by 1 more", 100)

    def test_several_clients_of_a_process_are_one(self, valkey: redis.Redis) -> None:
        leasing(valkey, "one", GET, host="web-1")
        leasing(valkey, "two", PAY, host="web-1")
        heartbeat(valkey, "three", host="web-1")
        assert leases_on(GET, [bucket()]) == LeaseUse(1, 100, (GET,))
        assert leases_on(PAY, [bucket()]) == LeaseUse(1, 100, (PAY,))

    @pytest.mark.parametrize(
        "told",
        [None, 7, "yes", {}, {"ms": 0}, {"ms": -5}, {"ms": "100", "endpoints": [GET]}, {"ms": 100, "endpoints": GET}],
    )
    def test_nonsense_in_a_heartbeat_is_no_lease(self, valkey: redis.Redis, told: object) -> None:
        heartbeat(valkey, "one", leases=told)
        assert leases_on(GET, [bucket()]) is None

    def test_without_redis_nothing_is_claimed(self, settings: Any) -> None:
        settings.REDIS_URL = "redis://127.0.0.1:1/0"
        assert leases_on(GET, [bucket()]) is None


class TestOfATenant:
    def found(self, *limits: tuple[str, Limit], everyone: Iterable[tuple[str, Limit]] = ()) -> LeaseUse | None:
        own = [Effective(one, scope, "tier pro") for scope, one in limits]
        return leases_of([*own, *(Effective(one, scope, "global", is_global=True) for scope, one in everyone)])

    def test_it_names_the_endpoints_that_its_limits_let_lease(self, valkey: redis.Redis) -> None:
        leasing(valkey, "one", GET, PAY)
        leasing(valkey, "two", PAY)
        assert self.found(("*", bucket())) == LeaseUse(2, 100, (PAY, GET))
        assert self.found(("*", bucket()), (PAY, bucket(0, "pay"))) == LeaseUse(1, 100, (GET,))
        assert self.found(("*", bucket(0))) is None

    def test_an_endpoint_s_own_limit_replaces_the_one_of_the_same_name(self, valkey: redis.Redis) -> None:
        leasing(valkey, "one", GET, ms=1_000)
        assert self.found(("*", bucket(0)), (GET, bucket(500))) == LeaseUse(1, 500, (GET,))

    @pytest.mark.parametrize("scope", ["*", "rides:*", GET])
    def test_a_limit_on_everyone_forbids_it_too(self, valkey: redis.Redis, scope: str) -> None:
        leasing(valkey, "one", GET, PAY)
        found = self.found(("*", bucket()), everyone=[(scope, bucket(0))])
        assert found == (None if scope == "*" else LeaseUse(1, 100, (PAY,)))

    def test_without_a_leasing_process_there_is_nothing_to_say(self, valkey: redis.Redis) -> None:
        heartbeat(valkey, "one")
        assert self.found(("*", bucket())) is None
