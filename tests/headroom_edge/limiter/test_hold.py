from __future__ import annotations

from typing import cast

import pytest
import redis

from headroom_edge.results import Result
from tests.headroom_edge.adaptive import BACKEND, Learned, learned
from tests.headroom_edge.limiter.both import Either
from tests.headroom_edge.limiter.world import ENDPOINT, TENANT, configuration, fcalls, limit, publish


@pytest.fixture
def two_slots(valkey: redis.Redis) -> redis.Redis:
    publish(valkey, configuration(limit("inflight", "concurrency", limit=2, hold="1m")))
    return valkey


def test_a_slot_is_held_inside_the_block_only(two_slots: redis.Redis, limiter: Either) -> None:
    with (
        limiter.hold(tenant=TENANT, endpoint=ENDPOINT) as first,
        limiter.hold(tenant=TENANT, endpoint=ENDPOINT) as second,
    ):
        assert (first.remaining, second.remaining) == (1, 0)
        assert first.holder != second.holder
        with limiter.hold(tenant=TENANT, endpoint=ENDPOINT) as third:
            assert not third.allowed
    assert limiter.peek(tenant=TENANT, endpoint=ENDPOINT).remaining == 1


def test_leaving_after_a_denial_releases_nobody_else(two_slots: redis.Redis, limiter: Either) -> None:
    with limiter.hold(tenant=TENANT, endpoint=ENDPOINT), limiter.hold(tenant=TENANT, endpoint=ENDPOINT):
        with limiter.hold(tenant=TENANT, endpoint=ENDPOINT):
            pass
        assert not limiter.peek(tenant=TENANT, endpoint=ENDPOINT).allowed


def test_the_caller_may_name_the_holder(two_slots: redis.Redis, limiter: Either) -> None:
    with limiter.hold(tenant=TENANT, endpoint=ENDPOINT, holder="job-7") as decision:
        assert decision.holder == "job-7"
        with limiter.hold(tenant=TENANT, endpoint=ENDPOINT, holder="job-7") as again:
            assert again.remaining == 1


def test_a_slot_is_released_when_the_block_fails(two_slots: redis.Redis, limiter: Either) -> None:
    holding = limiter.hold(tenant=TENANT, endpoint=ENDPOINT)
    holding.__enter__()
    holding.__exit__(None, None, None)
    assert limiter.peek(tenant=TENANT, endpoint=ENDPOINT).remaining == 1


def test_without_a_concurrency_limit_nothing_needs_a_release(store: redis.Redis, limiter: Either) -> None:
    with limiter.hold(tenant=TENANT, endpoint=ENDPOINT) as decision:
        assert decision.allowed
        assert decision.holder == ""
        store.config_resetstat()
    assert fcalls(store) == 0


def test_a_slot_can_be_taken_and_released_apart(two_slots: redis.Redis, limiter: Either) -> None:
    named = limiter.check(tenant=TENANT, endpoint=ENDPOINT, holder="job-7")
    unnamed = limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    assert named.holder == "job-7"
    assert unnamed.holder
    denied = limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    assert [limiter.release(decision) for decision in (named, named, unnamed, denied)] == [1, 0, 1, 0]


@pytest.fixture
def adaptive(valkey: redis.Redis) -> redis.Redis:
    publish(valkey, configuration(BACKEND))
    return valkey


def test_a_block_tells_an_adaptive_limit_how_it_ended(adaptive: redis.Redis, limiter: Either) -> None:
    with limiter.hold(tenant=TENANT, endpoint=ENDPOINT) as decision:
        assert decision.quota == 27
    for error in (TimeoutError, RuntimeError):
        with pytest.raises(error), limiter.hold(tenant=TENANT, endpoint=ENDPOINT):
            raise error
    assert learned(adaptive) == Learned(answers=1, drops=1)


def test_a_release_may_tell_it_too_and_says_nothing_by_itself(adaptive: redis.Redis, limiter: Either) -> None:
    decisions = [limiter.check(tenant=TENANT, endpoint=ENDPOINT) for _ in range(4)]
    assert limiter.release(decisions[0]) == 1
    assert limiter.release(decisions[1], result="ok") == 1
    assert limiter.release(decisions[2], result="drop") == 1
    assert limiter.release(decisions[3], result="ignore") == 1
    assert learned(adaptive) == Learned(answers=1, drops=1)
    with pytest.raises(ValueError, match="ok, drop, ignore"):
        limiter.release(decisions[0], result=cast("Result", "fine"))
