"""F8a, the long form: any plan, and keys that move in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.bucket import Gcra, LeakyBucket
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from headroom_edge.algorithms.concurrency import Concurrency
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sliding_counter import SlidingCounter
from headroom_edge.algorithms.sliding_log import SlidingLog
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit, Mode
from tests.clusters import SpareCluster
from tests.headroom_edge.lua.moving import Slot
from tests.headroom_edge.lua.moving_plans import HOUR_US, PREFIX, SCENARIOS, Scenario, bucket, with_all
from tests.headroom_edge.lua.test_half_moved_slots import Sweep, known_before, sweep_of

EXAMPLES, ORDERS = 100, 10
MODES: tuple[Mode, ...] = ("enforce", "enforce", "shadow")

algorithms: st.SearchStrategy[Any] = st.one_of(
    st.builds(bucket, st.integers(1, 8)),
    st.builds(Gcra, st.integers(1, 8), st.just(HOUR_US), st.integers(1, 8)),
    st.builds(FixedWindow, st.integers(1, 8), st.just(HOUR_US)),
    st.builds(SlidingCounter, st.integers(1, 8), st.just(HOUR_US)),
    st.builds(SlidingLog, st.integers(1, 8), st.just(HOUR_US)),
    st.builds(CalendarQuota, st.integers(1, 8), st.just("month"), st.just("UTC"), st.just("1")),
    st.builds(Concurrency, st.integers(1, 3), st.just(60 * SECOND_US)),
)


@st.composite
def limits(draw: st.DrawFn) -> tuple[Limit, ...]:
    found = []
    for number in range(draw(st.integers(1, 4))):
        algorithm = draw(algorithms)
        candidate = draw(st.none() | st.just(algorithm)) if not isinstance(algorithm, Concurrency) else None
        mode: Mode = draw(st.sampled_from(MODES)) if candidate is None else "enforce"
        subject = Subject.parse(draw(st.sampled_from(["tenant", "key", "key"])))
        found.append(Limit(f"limit-{number}", algorithm, subject, mode=mode, candidate=candidate))
    if draw(st.booleans()):
        found.append(Limit("leaky", LeakyBucket(5, HOUR_US, 5), Subject.parse("key")))
    return tuple(found)


def sweep_in_any_order(cluster: SpareCluster, data: st.DataObject, scenario: Scenario) -> int:
    """How many calls were made."""
    slot = Slot(cluster, PREFIX)
    try:
        slot.source.flushall()
        slot.target.flushall()
        sweep: Sweep = sweep_of(slot, scenario)
        if data.draw(st.booleans(), label="the target knows the plans"):
            known_before(slot, sweep)
        sweep.run(data.draw(st.permutations(sorted(sweep.before)), label="order"))
        return sweep.asked
    finally:
        slot.close()


@pytest.mark.faults_long
def test_any_plan_survives_a_move_in_any_order(cluster: SpareCluster, figures: Callable[[str], None]) -> None:
    asked = 0

    @settings(max_examples=EXAMPLES, derandomize=False, suppress_health_check=list(HealthCheck))
    @given(st.data(), limits())
    def move(data: st.DataObject, drawn: tuple[Limit, ...]) -> None:
        nonlocal asked
        asked += sweep_in_any_order(cluster, data, Scenario(drawn, with_all))

    move()
    figures(f"{EXAMPLES} plans and orders, {asked:,} calls at both nodes: none charged wrongly, none half done")


@pytest.mark.faults_long
@pytest.mark.parametrize("name", SCENARIOS)
def test_known_plans_survive_a_move_in_any_order(
    cluster: SpareCluster, name: str, figures: Callable[[str], None]
) -> None:
    asked = 0

    @settings(max_examples=ORDERS, derandomize=False, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def move(data: st.DataObject) -> None:
        nonlocal asked
        asked += sweep_in_any_order(cluster, data, SCENARIOS[name])

    move()
    figures(f"{ORDERS} orders, {asked:,} calls at both nodes: none charged wrongly, none half done")
