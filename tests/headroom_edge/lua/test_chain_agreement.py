"""Lua and the reference model decide alike about limits that share, and a denial changes no record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from headroom_edge.algorithms.base import SECOND_US, Algorithm
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.plan.priority import PRIORITIES
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit, Mode, Policy, Unit
from quotas.simulation.reference_limiter import Request
from tests.headroom_edge.lua.strategies import Policies
from tests.headroom_edge.lua.test_agreement import ENDPOINTS, Agreement, agree
from tests.headroom_edge.lua.world import TENANT, TIER, Reply
from tests.valkeys import SpareValkey

SEQUENCES = 20  # in `make test`; 60 in `make test-all`

rates = st.sampled_from([1, 2, 3, 7, 10, 30, 1_000])
spans = st.sampled_from([250_000, SECOND_US, 7 * SECOND_US])
bursts = st.integers(1, 12)


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    burst = draw(bursts)
    return Pool(draw(rates), draw(spans), burst, draw(st.integers(0, burst)))


@st.composite
def shares(draw: st.DrawFn, parent: str) -> Borrowing:
    assured, per_us = draw(st.sampled_from([0, 1, 3, 10, 300])), draw(spans)
    burst = draw(bursts) if assured else 0
    ceiling = draw(st.none() | st.sampled_from([300, 1_000])) if assured else draw(st.none() | rates)
    ceiling_burst = burst + draw(bursts) if ceiling else None
    weight = draw(st.none() | st.integers(1, 5))
    return Borrowing(assured, per_us, burst, ceiling, ceiling_burst, draw(st.integers(0, burst)), parent, weight)


SUBJECTS = {"org": "tenant", "team": "key", "member": "key+ip"}


@dataclass
class Chains(Policies):
    """Chains of one to three limits; the pool is the tier's or everybody's, the others may be an endpoint's."""

    kinds: str = "tfosq"

    def policies(self, draw: st.DrawFn) -> tuple[Policy, ...]:
        depth = draw(st.integers(1, 3))
        mode: Mode = draw(st.sampled_from(["enforce", "enforce", "enforce", "shadow"]))
        unit: Unit = draw(st.sampled_from(["requests", "cost", "cost"]))
        names = list(SUBJECTS)[:depth]
        limits = [
            Limit(name, self._node(draw, name), Subject.parse(SUBJECTS[name]), unit=unit, mode=mode) for name in names
        ]
        org, *below = limits
        above = [self.limit(draw, name) for name in ("a", "b")[: draw(st.integers(0, 2))]]
        everywhere = draw(st.integers(0, len(below)))
        is_global = draw(st.booleans())
        found = [Policy("all", "*", (*(() if is_global else (org,)), *below[:everywhere], *above), tier=TIER)]
        if below[everywhere:]:
            found.append(Policy("search", "rides:search", tuple(below[everywhere:]), tier=TIER))
        if is_global:
            found.append(Policy("everyone", "*", (org,)))
        if draw(st.booleans()):
            alone = Limit("alone", draw(pools()), Subject.parse("ip"))
            found.append(Policy("own", "rides:book", (alone,), tenant=TENANT))
        return tuple(found)

    def _node(self, draw: st.DrawFn, name: str) -> Algorithm:
        names = list(SUBJECTS)
        return draw(pools()) if name == "org" else draw(shares(names[names.index(name) - 1]))

    def like(self, algorithm: Algorithm) -> st.SearchStrategy[Any]:
        if isinstance(algorithm, Pool):
            return pools()
        if isinstance(algorithm, Borrowing):
            return shares(algorithm.parent)
        return super().like(algorithm)


class ChainAgreement(Agreement):
    drawn = Chains(bursts, rates, st.integers(3, 20))
    stays = tuple(SUBJECTS)

    members = st.builds(
        Request,
        st.just(TENANT),
        st.fixed_dictionaries(
            {"key": st.sampled_from(["k1", "k2"])}, optional={"ip": st.sampled_from(["1.2.3.4", "5"])}
        ),
        st.sampled_from([1, 1, 1, 2, 5]),
        st.just("h"),
        st.sampled_from([None, *PRIORITIES]),
    )

    def _ask(self, request: Request, endpoint: str, rows: bool, function: str = "check") -> Reply:
        if request.priority:
            request = replace(request, subject={**request.subject, "priority": request.priority})
        return super()._ask(request, endpoint, rows, function)

    def _compare(self, reply: Reply, answer: Any, rows: bool) -> None:
        super()._compare(reply, answer, rows)
        if rows:
            mine = sorted((row[0], row[8].partition("/")[2]) for row in reply.rows)
            assert mine == sorted((row.name, row.cause) for row in answer.rows)

    @rule(step=st.sampled_from([1, 5_000, 20_000, 60_000, 100_000, 150_000]))
    def pass_epochs(self, step: int) -> None:
        self.now_us += step

    @rule(
        request=members,
        endpoint=st.sampled_from(ENDPOINTS),
        gap=st.sampled_from([0, 1_000, 30_000]),
        rows=st.booleans(),
    )
    def ask_often(self, request: Request, endpoint: str, gap: int, rows: bool) -> None:
        for _ in range(8):
            self._check(request, endpoint, rows)
            self.now_us += gap

    def _check(self, request: Request, endpoint: str, rows: bool) -> None:
        self._peek(request, endpoint)
        reply = self._ask(request, endpoint, rows=rows)
        answer = self.model.check(self.plans[endpoint], self.now_us, request)
        self._compare(reply, answer, rows=rows)
        if answer.receipt and rows:
            self.receipts.append((endpoint, request, reply, answer.receipt))


@pytest.fixture
def server() -> Iterator[SpareValkey]:
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="hr"))
        yield stack.enter_context(SpareValkey(Path(folder), extra=("--import-mode", "yes")))


@pytest.mark.timeout(3_600)
def test_lua_and_the_reference_model_agree_about_chains(server: SpareValkey) -> None:
    agree(server, SEQUENCES, derandomize=True, machine=ChainAgreement)


@pytest.mark.sweep
@pytest.mark.timeout(3_600)
def test_they_agree_about_chains_over_sixty_sequences(server: SpareValkey) -> None:
    agree(server, 60, derandomize=True, machine=ChainAgreement)
