"""F25: Lua and the reference model decide alike, whatever the policy, cost, clock and change of configuration."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from headroom_edge.algorithms.base import SECOND_US, Algorithm
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from headroom_edge.results import Result
from quotas.policies.plans import CALENDAR_DAYS, month_start_us
from quotas.policies.spec import Limit
from quotas.simulation.reference_limiter import ReferenceLimiter, Request
from quotas.simulation.reference_plan import ReferencePlan, applied_at
from tests.headroom_edge.lua.strategies import SMALL, Policies
from tests.headroom_edge.lua.world import NOW_US, TENANT, TIER, Reply, World
from tests.valkeys import SpareValkey

SEQUENCES = 25  # in `make test`; 300 in `make test-all`, ten thousand in `make faults`
ENDPOINTS = ("rides:search", "rides:book", "unheard:of")


class Agreement(RuleBasedStateMachine):
    server: SpareValkey
    drawn: Policies = SMALL
    stays: tuple[str, ...] = ("a",)  # names of limits that are never removed

    def __init__(self) -> None:
        super().__init__()
        self.client = self.server.client()
        # Nothing expires by the server's own clock (import mode), however long a busy machine takes.
        execute: Any = self.client.execute_command
        execute("CLIENT", "IMPORT-SOURCE", "ON")
        self.client.flushall()
        # The reference model knows no cap on new subjects.
        self.world = World(self.client, settings={"subject_cap": 10**9})
        self.model = self.new_model()
        self.now_us = NOW_US
        self.receipts: list[tuple[str, Request, Reply, Any]] = []

    def new_model(self) -> ReferenceLimiter:
        return ReferenceLimiter()

    def teardown(self) -> None:
        endless = [key for key in self.world.state() if self.client.pttl(key) < 0]
        self.client.close()
        assert endless == [], "F10: a state key without TTL"

    @initialize(data=st.data())
    def configure(self, data: st.DataObject) -> None:
        draw: Any = data.draw
        self.policies = self.drawn.policies(draw)
        self._publish()

    def _publish(self) -> None:
        self.world.configure(*self.policies, now_us=NOW_US)
        self.plans = {endpoint: self._plan(endpoint) for endpoint in ENDPOINTS}

    def _plan(self, endpoint: str) -> ReferencePlan:
        applied = applied_at(self.policies, TENANT, TIER, endpoint)
        return ReferencePlan.of(replace(one, limit=_resolved(one.limit)) for one in applied)

    @rule(data=st.data())
    def change_parameters(self, data: st.DataObject) -> None:
        draw: Any = data.draw
        self.policies = tuple(
            replace(
                policy,
                limits=tuple(
                    self.drawn.changed(draw, limit, self.now_us) if data.draw(st.booleans()) else limit
                    for limit in policy.limits
                ),
            )
            for policy in self.policies
        )
        self._publish()

    @rule(data=st.data())
    def remove_and_add(self, data: st.DataObject) -> None:
        first, *rest = self.policies
        kept = tuple(limit for limit in first.limits if limit.name in self.stays or data.draw(st.booleans()))
        self.policies = (replace(first, limits=kept), *rest)
        self._publish()

    @rule(
        step=st.sampled_from(
            [0, 1, 999, 100_000, 333_333, SECOND_US, 10 * SECOND_US, 61 * SECOND_US, 90_000 * SECOND_US]
        )
    )
    def pass_time(self, step: int) -> None:
        self.now_us += step

    @rule(step=st.sampled_from([1, 100_000, SECOND_US, 61 * SECOND_US, 3_600 * SECOND_US]))
    def step_back(self, step: int) -> None:
        self.now_us -= step

    requests = st.builds(
        Request,
        st.just(TENANT),
        st.dictionaries(
            st.sampled_from(["ip", "key", "user"]), st.sampled_from(["1.2.3.4", "::1", "k 9", "é"]), max_size=3
        ),
        st.sampled_from([1, 1, 1, 2, 5, 13]),
        st.sampled_from(["h1", "h2", "h3", "h4"]),
    )

    @rule(request=requests, endpoint=st.sampled_from(ENDPOINTS), rows=st.booleans(), times=st.integers(1, 4))
    def check(self, request: Request, endpoint: str, rows: bool, times: int) -> None:
        for _ in range(times):
            self._peek(request, endpoint)
            reply = self._ask(request, endpoint, rows=rows)
            answer = self.model.check(self.plans[endpoint], self.now_us, request)
            self._compare(reply, answer, rows=rows)
            if answer.receipt and rows:
                self.receipts.append((endpoint, request, reply, answer.receipt))

    def _peek(self, request: Request, endpoint: str) -> None:
        reply = self._ask(request, endpoint, rows=True, function="peek")
        self._compare(reply, self.model.peek(self.plans[endpoint], self.now_us, request), rows=True)

    def _ask(self, request: Request, endpoint: str, rows: bool, function: str = "check") -> Reply:
        dimensions = {name: value for name, value in request.subject.items() if value is not None}
        holder = {"holder": request.holder}
        return self.world.check(
            self.now_us, request.cost, endpoint, rows=rows, function=function, **dimensions, **holder
        )

    def _compare(self, reply: Reply, answer: Any, rows: bool) -> None:
        mine = (
            reply.allowed,
            reply.reason,
            reply.limit,
            reply.quota,
            reply.remaining,
            reply.reset_us,
            reply.retry_us,
            reply.wait_us,
            reply.holder,
        )
        theirs = (
            answer.allowed,
            answer.reason,
            answer.limit,
            answer.quota,
            answer.remaining,
            answer.reset_us,
            answer.retry_us,
            answer.wait_us,
            answer.holder,
        )
        assert mine == theirs
        if rows:
            assert sorted(row[:8] for row in reply.rows) == sorted(
                (
                    row.name,
                    int(row.admitted),
                    row.quota,
                    row.window_s,
                    row.remaining,
                    row.reset_us,
                    row.retry_us,
                    row.wait_us,
                )
                for row in answer.rows
            )

    @rule(request=requests, endpoint=st.sampled_from(ENDPOINTS), result=st.sampled_from(["ok", "drop", "ignore", None]))
    def release(self, request: Request, endpoint: str, result: Result | None) -> None:
        dimensions = [part for pair in request.subject.items() for part in pair]
        # A holder that has expired is released by the store as well, and worth nothing to anybody.
        words = [request.holder, result] if result else [request.holder]
        self.world.ask("release", self.now_us, endpoint, *words, *dimensions)
        self.model.release(self.plans[endpoint], self.now_us, request, result or "ignore")

    @rule(data=st.data())
    def refund(self, data: st.DataObject) -> None:
        if not self.receipts:
            return
        endpoint, request, reply, receipt = data.draw(st.sampled_from(self.receipts))
        dimensions = [part for pair in request.subject.items() for part in pair]
        count = self.world.ask("refund", self.now_us, endpoint, reply.receipt, *dimensions)
        assert count == self.model.refund(self.plans[endpoint], self.now_us, receipt, request)

    @rule(request=requests, endpoint=st.sampled_from(ENDPOINTS), name=st.sampled_from(["a", "b", "*"]))
    def reset(self, request: Request, endpoint: str, name: str) -> None:
        dimensions = [part for pair in request.subject.items() for part in pair]
        count = self.world.ask("reset", self.now_us, endpoint, name, *dimensions)
        assert count == self.model.reset(self.plans[endpoint], self.now_us, name, request)


def _resolved(limit: Limit) -> Limit:
    """Calendars with the boundaries that the compiler gives them."""
    first_s = month_start_us(NOW_US) // SECOND_US
    last_s = first_s + CALENDAR_DAYS * 86_400

    def on(algorithm: Algorithm) -> Algorithm:
        if not isinstance(algorithm, CalendarQuota):
            return algorithm
        return algorithm.on(algorithm.boundaries("UTC", first_s, last_s))

    past = tuple(replace(generation, algorithm=on(generation.algorithm)) for generation in limit.past)
    candidate = on(limit.candidate) if limit.candidate else None
    return replace(limit, algorithm=on(limit.algorithm), past=past, candidate=candidate)


@pytest.fixture
def server() -> Iterator[SpareValkey]:
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="hr"))
        yield stack.enter_context(SpareValkey(Path(folder), extra=("--import-mode", "yes")))


@pytest.mark.timeout(3_600)  # a core that is shared may need minutes
def test_lua_and_the_reference_model_agree(server: SpareValkey) -> None:
    agree(server, SEQUENCES, derandomize=True)


@pytest.mark.sweep
@pytest.mark.timeout(3_600)
def test_they_agree_over_three_hundred_sequences(server: SpareValkey) -> None:
    agree(server, 300, derandomize=True)


@pytest.mark.faults_long
@pytest.mark.timeout(7_200)
def test_they_agree_over_ten_thousand_sequences(server: SpareValkey) -> None:
    agree(server, 10_000, derandomize=False)


def agree(
    server: SpareValkey, sequences: int, *, derandomize: bool, machine: type[Agreement] = Agreement, steps: int = 25
) -> None:
    machine.server = server
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=sequences,
            derandomize=derandomize,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.explicit, Phase.generate),
            report_multiple_bugs=False,
            print_blob=True,
        ),
    )
