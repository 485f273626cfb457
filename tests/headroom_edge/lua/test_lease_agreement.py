"""Lua and the reference model grant the same blocks and take the same units back, whatever happens in between."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from quotas.simulation.reference_limiter import Request
from tests.headroom_edge.lua.lease_model import LeaseModel, ModelReceipt, ModelSettlement, Wants
from tests.headroom_edge.lua.leases import NOTHING, Block, Settlement, give_back, lease
from tests.headroom_edge.lua.strategies import Policies
from tests.headroom_edge.lua.test_agreement import ENDPOINTS, Agreement, agree, server
from tests.headroom_edge.lua.world import TENANT, usage_of
from tests.valkeys import SpareValkey

__all__ = ["server"]  # a fixture

SEQUENCES = 10  # in `make test`; 25 in `make test-all`

LARGE = Policies(
    sizes=st.sampled_from([40, 300, 300, 1_000, 1_000]),
    rates=st.sampled_from([7, 333, 1_000]),
    quotas=st.sampled_from([20_000, 100_000]),
    kinds="tgfsoq",
    lease_ms=st.sampled_from([None, None, None, None, 0, 10, 1_000]),
    subjects=("tenant", "tenant", "ip"),
)
requests = st.builds(
    Request, st.just(TENANT), st.sampled_from([{}, {}, {"ip": "1.2.3.4"}]), st.sampled_from([1, 1, 2, 13]), st.just("")
)
endpoints = st.sampled_from([*ENDPOINTS, ENDPOINTS[0], ENDPOINTS[0]])
wants = st.sampled_from([(0, 0), (8, 8), (20, 20), (100, 100), (50, 170), (10_000, 10_000)])
lengths = st.sampled_from([0, 1, 50, 1_000, 1_000])
Held = tuple[str, Request, Block, ModelReceipt]


class LeaseAgreement(Agreement):
    drawn = LARGE

    def __init__(self) -> None:
        super().__init__()
        self.world.settings["sample_per_1024"] = 0  # the model samples nobody
        self.held: list[Held] = []
        self.counted = 0  # requests that must be accounted as allowed

    def new_model(self) -> LeaseModel:
        self.leases = LeaseModel()
        return self.leases

    def teardown(self) -> None:
        accounted = usage_of(self.client, "a")
        super().teardown()
        assert accounted == self.counted

    def _publish(self) -> None:
        super()._publish()
        limits = (limit for policy in self.policies for limit in policy.limits)
        self.leases.lease_ms = {limit.name: limit.lease_ms for limit in limits if limit.lease_ms is not None}

    def _ask(self, request: Request, endpoint: str, rows: bool, function: str = "check") -> Any:
        reply = super()._ask(request, endpoint, rows, function)
        self.counted += reply.allowed and function == "check"
        return reply

    @rule(step=st.sampled_from([0, 1, 999, 20_000, 60_000]))
    def pass_a_moment(self, step: int) -> None:
        self.now_us += step

    @rule(data=st.data(), request=requests, endpoint=endpoints, want=wants, longest_ms=lengths)
    def lease_again(
        self, data: st.DataObject, request: Request, endpoint: str, want: tuple[int, int], longest_ms: int
    ) -> None:
        self.lease(data, request, endpoint, want, longest_ms, rows=False)

    @rule(data=st.data(), request=requests, endpoint=endpoints, want=wants, longest_ms=lengths, rows=st.booleans())
    def lease(
        self,
        data: st.DataObject,
        request: Request,
        endpoint: str,
        want: tuple[int, int],
        longest_ms: int,
        rows: bool,
    ) -> None:
        settled = self._settlement(data, endpoint, request) if data.draw(st.booleans()) else None
        words, given = settled or (NOTHING, None)
        reply, block = lease(
            self.world,
            self.now_us,
            want,
            words,
            request.cost,
            longest_ms,
            endpoint,
            rows,
            **self._dimensions(request),
        )
        wanted = Wants(*want, longest_ms)
        answer, granted = self.leases.lease(self.plans[endpoint], self.now_us, request, wanted, given)
        self.counted += reply.allowed
        self._compare(reply, answer, rows)
        assert (block.calls, block.cost, block.lasts_us) == (granted.calls, granted.cost, granted.lasts_us)
        if granted.receipt is not None:
            self.held.append((endpoint, request, block, granted.receipt))

    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        if not self.held:
            return
        endpoint, request, *_ = data.draw(st.sampled_from(self.held))
        settled = self._settlement(data, endpoint, request)
        if settled is None:
            return
        words, given = settled
        count = give_back(self.world, self.now_us, words, endpoint, **self._dimensions(request))
        assert count == self.leases.give_back(self.plans[endpoint], self.now_us, request, given)

    def _settlement(
        self, data: st.DataObject, endpoint: str, request: Request
    ) -> tuple[Settlement, ModelSettlement] | None:
        """Of a block of this endpoint and subject; it may have been settled already."""
        mine = [one for one in self.held if one[0] == endpoint and one[1].subject == request.subject]
        if not mine:
            return None
        *_, block, receipt = data.draw(st.sampled_from(mine))
        spent = data.draw(st.sampled_from([0, 1, block.calls // 2, block.calls]))
        back = data.draw(st.sampled_from([0, block.calls - spent]))
        spent_cost = min(spent, block.cost)
        back_cost = block.cost - spent_cost if back else 0
        if self.leases.is_open(receipt, self.now_us):
            self.counted += spent
        return Settlement(block.receipt, spent, spent_cost, back, back_cost), ModelSettlement(receipt, back, back_cost)

    def _dimensions(self, request: Request) -> dict[str, str]:
        return {name: value for name, value in request.subject.items() if value is not None}


@pytest.mark.timeout(3_600)
def test_lua_and_the_reference_model_lease_alike(server: SpareValkey) -> None:
    agree(server, SEQUENCES, derandomize=True, machine=LeaseAgreement, steps=40)


@pytest.mark.sweep
@pytest.mark.timeout(3_600)
def test_they_lease_alike_over_twenty_five_sequences(server: SpareValkey) -> None:
    agree(server, 25, derandomize=True, machine=LeaseAgreement, steps=40)


@pytest.mark.faults_long
@pytest.mark.timeout(7_200)
def test_they_lease_alike_over_five_thousand_sequences(server: SpareValkey) -> None:
    agree(server, 5_000, derandomize=False, machine=LeaseAgreement, steps=60)
