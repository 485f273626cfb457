"""A simulated service of 20 workers that take 20 ms each, behind the real Lua: latency, throughput and drift."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from headroom_edge.algorithms.adaptive_concurrency import AdaptiveConcurrency
from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit
from quotas.simulation.queueing_service import Answered, Gate, Phase, Service, phase, run
from quotas.simulation.reference_limiter import ReferenceLimiter, Request
from quotas.simulation.reference_plan import ReferencePlan
from tests.headroom_edge.lua.world import NOW_US, World

TARGET_MS = 30
LIMIT = Limit("db", AdaptiveConcurrency(3, 400, 20, TARGET_MS * 1_000, 30 * SECOND_US), Subject.parse("tenant"))


@dataclass
class LuaGate:
    world: World

    def __post_init__(self) -> None:
        self.world.limit_by(LIMIT)

    def admit(self, now_us: int, holder: str) -> bool:
        return bool(self.world.ask("check", now_us, "rides:search", 1, "holder", holder)[0])

    def release(self, now_us: int, holder: str) -> None:
        assert self.world.ask("release", now_us, "rides:search", holder, "ok") == 1

    def reason(self, now_us: int) -> str:
        ((_, _, _, _, _, reason, _, _),) = self.world.ask("live", now_us, "rides:search")
        return str(reason.decode())


@dataclass
class ModelGate:
    limiter: ReferenceLimiter = field(default_factory=ReferenceLimiter)
    plan: ReferencePlan = field(default_factory=lambda: ReferencePlan.of_limits(LIMIT))

    def admit(self, now_us: int, holder: str) -> bool:
        return not self.limiter.rule(self.plan, now_us, Request(holder=holder)).denied_by

    def release(self, now_us: int, holder: str) -> None:
        self.limiter.release(self.plan, now_us, Request(holder=holder), "ok")


def serve(gate: Gate, service: Service, seconds: float) -> list[Answered]:
    return run(gate, service, seconds, start_us=NOW_US)


def overloaded(gate: Gate, seconds: float) -> tuple[Phase, Phase]:
    """The first ten seconds after it has settled, and the last ten."""
    answers = serve(gate, Service(lambda _: 1_200), seconds)
    return phase(answers, 5, 15), phase(answers, seconds - 10, seconds)


@pytest.mark.timeout(600)
def test_it_is_back_on_target_a_second_after_capacity_halves(world: World) -> None:
    answers = serve(LuaGate(world), Service(lambda _: 900, lambda at_s: 20 if at_s < 3 else 10), 7)
    assert phase(answers, 1, 3).mean_ms < TARGET_MS
    assert phase(answers, 4, 5).mean_ms <= 1.1 * TARGET_MS
    halved = phase(answers, 4, 7)
    assert halved.mean_ms <= 1.1 * TARGET_MS
    assert halved.per_s >= 0.95 * 500  # what ten workers can do


@pytest.mark.timeout(600)
def test_a_healthy_service_that_is_slower_keeps_its_throughput(world: World) -> None:
    gate = LuaGate(world)
    answers = serve(gate, Service(lambda _: 250, slowness=lambda at_s: 1.0 if at_s < 3 else 3.0), 25)
    assert phase(answers, 4, 25).per_s >= 0.9 * 250
    assert phase(answers, 20, 25).mean_ms > 1.5 * TARGET_MS
    assert gate.reason(NOW_US + 10 * SECOND_US) == "service slower than its target"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seconds", [30, pytest.param(100, marks=pytest.mark.sweep)])
def test_latency_does_not_drift_in_the_model(seconds: int) -> None:
    early, late = overloaded(ModelGate(), seconds)
    assert abs(late.mean_ms - early.mean_ms) <= 0.1 * early.mean_ms
    assert late.mean_ms <= 1.1 * TARGET_MS


@pytest.mark.sweep
@pytest.mark.timeout(3_600)
def test_latency_does_not_drift_over_a_hundred_seconds(world: World) -> None:
    early, late = overloaded(LuaGate(world), 100)
    assert abs(late.mean_ms - early.mean_ms) <= 0.1 * early.mean_ms
    assert late.mean_ms <= 1.1 * TARGET_MS


def test_the_model_adapts_exactly_as_lua_does(world: World) -> None:
    service = Service(lambda _: 900, lambda at_s: 20 if at_s < 1 else 10)
    assert serve(LuaGate(world), service, 3) == serve(ModelGate(), service, 3)
