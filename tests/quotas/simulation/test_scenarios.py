"""Every scenario on the reference limiter and on the store's own Lua."""

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import pytest

from headroom_edge.algorithms.base import SECOND_US
from quotas.simulation.sandbox import Sandbox, StoreEngine
from quotas.simulation.scenarios import SCENARIOS
from quotas.simulation.scenarios.bursts import SHAPING
from quotas.simulation.scenarios.engine import ReferenceEngine
from quotas.simulation.scenarios.model import Ask, ScenarioCase, run_case
from quotas.simulation.scenarios.sharing import BORROWING, FIRST_US, A, B
from quotas.simulation.scenarios.windows import PACED

CASES = [
    pytest.param(case, id=f"{scenario.number}: {case.name}")
    for scenario in SCENARIOS.values()
    for case in scenario.cases
]
MINUTE_US = 60 * SECOND_US
# What they share is made once.
pytestmark = pytest.mark.xdist_group("scenarios")


@pytest.mark.parametrize("case", CASES)
def test_the_reference_comes_out_right(case: ScenarioCase) -> None:
    assert run_case(case, ReferenceEngine()).mismatches == []


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as server:
        yield server


@pytest.mark.parametrize("case", CASES)
def test_the_store_comes_out_right(sandbox: Sandbox, case: ScenarioCase) -> None:
    sandbox.forget()
    assert run_case(case, StoreEngine(sandbox)).mismatches == []


def times(case: ScenarioCase) -> list[int]:
    return [event.t_us for event in case.events if isinstance(event, Ask)]


def denied_by_fixed_window(arrivals: list[int]) -> int:
    counts = Counter(t // MINUTE_US for t in arrivals)
    return sum(max(0, count - 10) for count in counts.values())


def denied_by_log(arrivals: list[int]) -> int:
    admitted: list[int] = []
    for t in arrivals:
        if sum(t - MINUTE_US < old <= t for old in admitted) < 10:
            admitted.append(t)
    return len(arrivals) - len(admitted)


def denied_by_counter(arrivals: list[int]) -> int:
    counts, denied = Counter[int](), 0
    for t in arrivals:
        window, elapsed = divmod(t, MINUTE_US)
        estimate = counts[window] + counts[window - 1] * (1 - Fraction(elapsed, MINUTE_US))
        if estimate + 1 <= 10:
            counts[window] += 1
        else:
            denied += 1
    return denied


def test_the_paced_polls_agree_with_a_count_by_hand() -> None:
    by_hand = {
        "fixed window": denied_by_fixed_window,
        "sliding log": denied_by_log,
        "sliding counter": denied_by_counter,
    }
    for case in PACED.cases:
        count = by_hand.get(case.name.partition(",")[0])
        if count:
            assert count(times(case)) == case.denied, case.name


def test_shaped_departures_never_exceed_the_rate_in_any_half_open_second() -> None:
    case, engine = SHAPING.cases[0], ReferenceEngine()
    engine.configure(case.policies)
    departures = []
    for ask in case.events:
        assert isinstance(ask, Ask)
        departures += [ask.t_us + reply.wait_us for reply in engine.ask(ask) if reply.allowed]
    assert len(departures) == 14_000
    assert all(later - earlier >= SECOND_US for earlier, later in zip(departures, departures[3_000:], strict=False))


def test_borrowers_share_by_weight_within_a_second_and_never_exceed_the_pool() -> None:
    case, engine = BORROWING.cases[0], ReferenceEngine()
    engine.configure(case.policies)
    passed: list[tuple[int, str]] = []
    for ask in case.events:
        assert isinstance(ask, Ask)
        passed += [(ask.t_us, ask.subject["team"]) for reply in engine.ask(ask) if reply.allowed]
    alone = [who for t_us, who in passed if t_us < FIRST_US]
    assert len(alone) == pytest.approx(1_000, rel=0.05)
    settled = Counter(who for t_us, who in passed if t_us >= FIRST_US + SECOND_US)
    assert settled[A["team"]] == pytest.approx(500, rel=0.05)
    assert settled[B["team"]] == pytest.approx(500, rel=0.05)
    moments = [t_us for t_us, _ in passed]
    for first, begin_us in enumerate(moments[::50]):
        count = sum(t_us < begin_us + SECOND_US for t_us in moments[first * 50 :])
        assert count <= 1_000 + 250
