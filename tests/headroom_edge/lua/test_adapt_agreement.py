"""Lua and the reference model decide alike on limits that adapt, whatever their factors are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from headroom_edge import keys
from headroom_edge.algorithms.adapted import AdaptedBucket, scaled_charge
from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.bucket import Gcra, TokenBucket
from quotas.policies.adapt import Adapt
from quotas.policies.spec import EVERYWHERE, Limit, Policy
from tests.headroom_edge.lua.strategies import SMALL
from tests.headroom_edge.lua.test_agreement import Agreement, agree
from tests.headroom_edge.lua.test_agreement import server as server
from tests.headroom_edge.lua.world import TENANT
from tests.valkeys import SpareValkey

SEQUENCES = 15  # in `make test`; 40 in `make test-all`
SHARD = keys.shard_of(TENANT)
FACTORS = st.integers(1, 1_000) | st.sampled_from([100, 300, 333, 500, 999, 1_000])
ADAPTS = st.builds(
    Adapt,
    floor=st.sampled_from([10, 300, 333]),
    ceiling=st.sampled_from([800, 1_000]),
    slow_us=st.just(300_000),
    errors=st.just(50),
    pin=st.none() | st.sampled_from([400, 777]),
)


class AdaptingAgreement(Agreement):
    """Limits of one endpoint adapt; a factor holds until the next one."""

    @initialize(data=st.data())
    def configure(self, data: st.DataObject) -> None:
        draw: Any = data.draw
        own = tuple(self._adapting(draw, replace(SMALL, kinds="tg").limit(draw, name)) for name in ("a", "d"))
        self.policies = (
            *(policy for policy in self.drawn.policies(draw) if policy.endpoint == EVERYWHERE),
            Policy("search", "rides:search", own, tier="pro"),
        )
        self._publish()

    def _adapting(self, draw: Any, limit: Limit) -> Limit:
        return replace(limit, adapt=draw(st.none() | ADAPTS))

    @rule(factor=FACTORS)
    def move(self, factor: int) -> None:
        self.model.factor = factor
        config: Any = self.client.hgetall(keys.config(SHARD))
        names = [name.decode().removeprefix("a:") for name in config if name.startswith(b"a:")]
        self.client.set(keys.factors(SHARD), "".join(f"{name} {factor} {10**15} free;" for name in names))


def test_random_sequences_with_factors_agree(server: SpareValkey) -> None:
    agree(server, SEQUENCES, derandomize=True, machine=AdaptingAgreement)


@pytest.mark.sweep
def test_more_random_sequences_with_factors_agree(server: SpareValkey) -> None:
    agree(server, 40, derandomize=True, machine=AdaptingAgreement)


@given(
    rate=st.integers(1, 10_000),
    per_us=st.sampled_from([SECOND_US, 60 * SECOND_US]),
    burst=st.integers(1, 500),
    factor=st.integers(10, 1_000),
    costs=st.lists(st.integers(1, 20), min_size=1, max_size=60),
)
def test_what_passes_in_any_time_is_the_scaled_limit_and_one_request(
    rate: int, per_us: int, burst: int, factor: int, costs: list[int]
) -> None:
    bucket = AdaptedBucket(TokenBucket(rate, per_us, burst), factor, 10)
    state, now_us, passed = None, 10**15, 0
    for cost in costs:
        outcome = bucket.decide(state, now_us, cost)
        if outcome.verdict.admitted:
            state, passed = outcome.charged, passed + cost
        elif outcome.verdict.retry_us > 0:
            early = bucket.decide(state, now_us + outcome.verdict.retry_us - 1, cost)
            assert not early.verdict.admitted
            now_us += outcome.verdict.retry_us
            assert bucket.decide(state, now_us, cost).verdict.admitted
    elapsed_us = now_us - 10**15
    # Units that flow in, the burst, and one request above it, all times the factor.
    room = (elapsed_us * bucket.bucket.Q + burst * bucket.bucket.P) * factor // 1_000 + max(costs) * bucket.bucket.P
    assert passed * bucket.bucket.P <= room


@given(rate=st.integers(1, 1_000), cost=st.integers(1, 5), burst=st.integers(5, 50), state=st.integers(0, 10**6))
def test_the_whole_factor_is_the_plain_bucket(rate: int, cost: int, burst: int, state: int) -> None:
    plain = Gcra(rate, SECOND_US, burst)
    before = (10**15 + state, 0)
    assert AdaptedBucket(plain, 1_000, 1_000).decide(before, 10**15, cost) == plain.decide(before, 10**15, cost)


@pytest.mark.parametrize(("charge", "factor", "wanted"), [(10, 1_000, 10), (10, 300, 34), (1, 999, 2), (3, 500, 6)])
def test_a_charge_is_rounded_up(charge: int, factor: int, wanted: int) -> None:
    assert scaled_charge(charge, factor) == wanted
