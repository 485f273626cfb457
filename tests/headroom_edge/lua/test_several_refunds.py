"""Several refunds of one bucket together give back no more than is left of their charges."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.bucket import Gcra, LeakyBucket, TokenBucket
from headroom_edge.algorithms.sharing import Pool
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit
from quotas.simulation.reference_limiter import ReferenceLimiter, Request
from quotas.simulation.reference_plan import ReferencePlan
from tests.headroom_edge.lua.world import NOW_US, World

WHOLE = Subject.parse("tenant")
ENDPOINT = "rides:search"
BUCKETS: list[Any] = [
    TokenBucket(1, SECOND_US, 20),
    TokenBucket(3, SECOND_US, 12, 2 * SECOND_US),
    TokenBucket(3_000, SECOND_US, 20),
    Gcra(7, SECOND_US, 15),
    LeakyBucket(30_000, SECOND_US, 20),
    Pool(7, SECOND_US, 20),
]


@dataclass(frozen=True, slots=True)
class Charge:
    cost: int
    wait: int  # before it, in 1/1000 of a unit's interval


@dataclass(frozen=True, slots=True)
class Refund:
    number: int  # of the charge, counted backwards
    wait: int


@dataclass(slots=True)
class Admitted:
    at_us: int
    cost: int
    receipt: str
    model_receipt: Any
    is_refunded: bool = False


waits = st.sampled_from((0, 0, 1, 250, 1_000, 2_500, 4_000, 9_000))
steps = st.lists(
    st.one_of(st.builds(Charge, st.integers(1, 10), waits), st.builds(Refund, st.integers(1, 6), waits)), max_size=30
)


class Pair:
    """One bucket in Lua and in the reference model."""

    def __init__(self, world: World, bucket: Any) -> None:
        self.world, self.bucket = world, bucket
        limit = Limit("a", bucket, WHOLE, unit="cost")
        world.limit_by(limit)
        self.model, self.plan = ReferenceLimiter(), ReferencePlan.of_limits(limit)
        self.now_us = NOW_US
        self.admitted: list[Admitted] = []
        rate = bucket.bucket if isinstance(bucket, Pool) else bucket
        self.P: int = rate.P
        self.Q: int = rate.Q

    def wait(self, thousandths: int) -> None:
        self.now_us += thousandths * self.P // self.Q // 1_000

    def charge(self, cost: int) -> bool:
        reply = self.world.check(self.now_us, cost, rows=True)
        answer = self.model.check(self.plan, self.now_us, Request(cost=cost))
        assert (reply.allowed, reply.remaining, reply.reset_us) == (answer.allowed, answer.remaining, answer.reset_us)
        if reply.allowed:
            self.admitted.append(Admitted(self.now_us, cost, reply.receipt, answer.receipt))
        return reply.allowed

    def refund(self, one: Admitted) -> int:
        count = int(self.world.ask("refund", self.now_us, ENDPOINT, one.receipt))
        assert count == self.model.refund(self.plan, self.now_us, one.model_receipt, Request(cost=one.cost))
        one.is_refunded = one.is_refunded or count > 0
        return count

    @property
    def backlog(self) -> int:
        """In 1/Q microseconds."""
        state = self.model.state(self.plan, self.now_us, "a")
        return max(0, (state[0] - self.now_us) * self.Q + state[1]) if state else 0

    @property
    def least_backlog(self) -> int:
        """What a bucket would have that saw only what was not refunded."""
        return backlog_of(((one.at_us, one.cost * self.P) for one in self.kept), self.now_us, self.Q)

    @property
    def kept(self) -> list[Admitted]:
        return [one for one in self.admitted if not one.is_refunded]


def backlog_of(charges: Iterable[tuple[int, int]], now_us: int, drains: int) -> int:
    backlog, last_us = 0, NOW_US
    for at_us, amount in charges:
        backlog, last_us = max(0, backlog - (at_us - last_us) * drains) + amount, at_us
    return max(0, backlog - (now_us - last_us) * drains)


def test_a_refund_knows_that_an_earlier_one_moved_its_charge_forward(world: World) -> None:
    """B follows A. When A is given back, B begins to flow back at once: after 4 s, 1 unit is left of it, not 5."""
    pair = Pair(world, TokenBucket(1, SECOND_US, 20))
    assert pair.charge(10)
    assert pair.charge(5)
    assert pair.refund(pair.admitted[0]) == 1
    pair.wait(4_000)
    assert pair.charge(5)
    assert pair.refund(pair.admitted[1]) == 1
    assert pair.backlog == 5 * pair.P


def test_a_refund_of_a_later_charge_leaves_an_earlier_one_what_it_had(world: World) -> None:
    pair = Pair(world, TokenBucket(1, SECOND_US, 20))
    assert pair.charge(10)
    assert pair.charge(5)
    pair.wait(1_000)
    assert [pair.refund(one) for one in reversed(pair.admitted)] == [1, 1]
    assert pair.backlog <= 5 * pair.P


@pytest.mark.parametrize("bucket", BUCKETS, ids=lambda one: f"{one.name}-{one.rate}")
def test_charges_of_one_moment_come_back_whole_in_any_order(world: World, bucket: Any) -> None:
    for order in (1, -1):
        pair = Pair(world, bucket)
        before = pair.backlog
        for cost in (1, 2, 3):
            assert pair.charge(cost)
        for one in pair.admitted[::order]:
            assert pair.refund(one) == 1
        assert pair.backlog == before
        world.client.flushall()


def test_what_was_reset_gives_nothing_back_when_others_use_it_again(world: World) -> None:
    pair = Pair(world, TokenBucket(1, SECOND_US, 20))
    assert pair.charge(10)
    assert world.ask("reset", NOW_US, ENDPOINT, "a") == pair.model.reset(pair.plan, NOW_US, "a") == 1
    pair.wait(1)
    assert pair.charge(10)
    assert pair.refund(pair.admitted[0]) == 0
    assert pair.refund(pair.admitted[1]) == 1


def test_many_refunds_leave_one_small_key_that_expires(world: World) -> None:
    pair = Pair(world, TokenBucket(1_000, SECOND_US, 1_000))
    for _ in range(200):
        pair.wait(500)
        assert pair.charge(1)
        assert pair.refund(pair.admitted[-1]) == 1
    client: Any = world.client
    (key,) = [key for key in client.keys("*") if key.endswith(b":b")]
    assert client.pexpiretime(key) > 0
    assert client.memory_usage(key) < 2_000


@pytest.mark.parametrize("bucket", BUCKETS, ids=lambda one: f"{one.name}-{one.rate}")
@given(steps=steps)
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_refunds_let_more_pass_than_the_bucket_allows(
    world: World, bucket: Any, steps: list[Charge | Refund]
) -> None:
    world.client.flushall()
    pair = Pair(world, bucket)
    for step in steps:
        pair.wait(step.wait)
        if isinstance(step, Charge):
            pair.charge(step.cost)
        elif step.number <= len(pair.admitted):
            pair.refund(pair.admitted[-step.number])
        assert pair.backlog >= pair.least_backlog
