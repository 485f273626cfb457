"""Lua and the reference model learn alike from windows of answers and drops, whatever the policy and the clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from headroom_edge.results import Result
from quotas.simulation.reference_limiter import Request
from tests.headroom_edge.lua.strategies import SMALL
from tests.headroom_edge.lua.test_agreement import ENDPOINTS, Agreement, agree
from tests.headroom_edge.lua.test_agreement import server as server
from tests.valkeys import SpareValkey

SEQUENCES = 15  # in `make test`; 300 in `make test-all`


class AdaptiveAgreement(Agreement):
    drawn = replace(SMALL, kinds="aat")

    @rule(
        request=Agreement.requests,
        endpoint=st.sampled_from(ENDPOINTS),
        wanted=st.integers(1, 6),
        rounds=st.integers(1, 12),
        took_us=st.sampled_from([500, 20_000, 90_000, 150_000, 220_000]),
        results=st.lists(st.sampled_from(["ok", "ok", "ok", "drop"]), min_size=1, max_size=4),
    )
    def serve(
        self, request: Request, endpoint: str, wanted: int, rounds: int, took_us: int, results: list[Result]
    ) -> None:
        """Some requests at once, again and again; each round ends at the same time."""
        dimensions = [part for pair in request.subject.items() for part in pair]
        for _ in range(rounds):
            asked = [replace(request, cost=1, holder=f"s{number}") for number in range(wanted)]
            for one in asked:
                reply = self._ask(one, endpoint, rows=True)
                self._compare(reply, self.model.check(self.plans[endpoint], self.now_us, one), rows=True)
            self.now_us += took_us
            for number, one in enumerate(asked):
                result = results[number % len(results)]
                self.world.ask("release", self.now_us, endpoint, one.holder, result, *dimensions)
                self.model.release(self.plans[endpoint], self.now_us, one, result)


@pytest.mark.timeout(3_600)
def test_lua_and_the_reference_model_learn_alike(server: SpareValkey) -> None:
    agree(server, SEQUENCES, derandomize=True, machine=AdaptiveAgreement, steps=12)


@pytest.mark.sweep
@pytest.mark.timeout(3_600)
def test_they_learn_alike_over_three_hundred_sequences(server: SpareValkey) -> None:
    agree(server, 300, derandomize=True, machine=AdaptiveAgreement, steps=12)
