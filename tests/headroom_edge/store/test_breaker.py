from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from headroom_edge.store.breaker import Breaker, BreakerSettings, BreakerState, Permit


@dataclass
class Clock:
    now_s: float = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(BreakerSettings(failures=3, of=10, forget_s=10.0, cooldown_s=0.5), clock)


def trip(breaker: Breaker, failures: int = 3) -> None:
    for _ in range(failures):
        breaker.failed(Permit.ASK)


def test_it_stays_closed_below_its_threshold(breaker: Breaker) -> None:
    trip(breaker, 2)
    assert breaker.state is BreakerState.CLOSED
    assert breaker.enter() is Permit.ASK


def test_it_opens_at_its_threshold_and_then_refuses(breaker: Breaker) -> None:
    trip(breaker)
    assert breaker.state is BreakerState.OPEN
    assert breaker.enter() is Permit.REFUSED
    assert breaker.opened == 1


def test_it_counts_failures_among_the_last_requests_only(breaker: Breaker) -> None:
    trip(breaker, 2)
    for _ in range(10):
        breaker.succeeded(Permit.ASK)
    trip(breaker, 2)
    assert breaker.state is BreakerState.CLOSED


def test_failures_between_successes_add_up(breaker: Breaker) -> None:
    for _ in range(3):
        breaker.failed(Permit.ASK)
        breaker.succeeded(Permit.ASK)
    assert breaker.state is BreakerState.OPEN


def test_it_forgets_failures_of_long_ago(breaker: Breaker, clock: Clock) -> None:
    trip(breaker, 2)
    clock.now_s += 11
    trip(breaker, 2)
    assert breaker.state is BreakerState.CLOSED


def test_after_the_cooldown_one_request_probes_and_the_others_wait(breaker: Breaker, clock: Clock) -> None:
    trip(breaker)
    clock.now_s += 0.4
    assert breaker.enter() is Permit.REFUSED
    clock.now_s += 0.2
    assert [breaker.enter() for _ in range(3)] == [Permit.PROBE, Permit.REFUSED, Permit.REFUSED]


def test_a_probe_that_succeeds_closes_it(breaker: Breaker, clock: Clock) -> None:
    trip(breaker)
    clock.now_s += 1
    breaker.succeeded(breaker.enter())
    assert breaker.state is BreakerState.CLOSED
    trip(breaker, 2)
    assert breaker.state is BreakerState.CLOSED


def test_a_probe_that_fails_opens_it_for_another_cooldown(breaker: Breaker, clock: Clock) -> None:
    trip(breaker)
    clock.now_s += 1
    breaker.failed(breaker.enter())
    assert breaker.enter() is Permit.REFUSED
    clock.now_s += 1
    assert breaker.enter() is Permit.PROBE
    assert breaker.probes == 2


def test_late_answers_of_older_requests_change_nothing_while_it_is_open(breaker: Breaker, clock: Clock) -> None:
    trip(breaker)
    breaker.succeeded(Permit.ASK)
    breaker.failed(Permit.ASK)
    assert breaker.enter() is Permit.REFUSED
    clock.now_s += 1
    assert breaker.enter() is Permit.PROBE
    breaker.succeeded(Permit.ASK)
    assert breaker.state is BreakerState.HALF_OPEN


def test_of_many_threads_one_probes(breaker: Breaker, clock: Clock) -> None:
    trip(breaker)
    clock.now_s += 1
    start = threading.Barrier(16)
    passes: list[Permit] = []

    def enter() -> None:
        start.wait()
        passes.append(breaker.enter())

    threads = [threading.Thread(target=enter) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert passes.count(Permit.PROBE) == 1
    assert passes.count(Permit.REFUSED) == 15


@pytest.mark.parametrize(
    "settings", [{"failures": 0}, {"failures": 21}, {"cooldown_s": 0}, {"forget_s": -1}], ids=lambda s: str(*s)
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        BreakerSettings(**settings)  # type: ignore[arg-type]
