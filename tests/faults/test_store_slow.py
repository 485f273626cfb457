"""F3: the wire to the store is slow."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import redis

from headroom_edge.store.breaker import BreakerSettings, BreakerState
from tests.faults.load import Load, modes
from tests.faults.proxy import Proxy
from tests.headroom_edge.limiter.both import MakeLimiter, until
from tests.headroom_edge.limiter.world import fcalls, publish

BREAKER = BreakerSettings(failures=4, of=10, cooldown_s=0.2)


def test_delays_within_the_budget_change_nothing(valkey: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy) -> None:
    publish(valkey, modes())
    load = Load(make_limiter(proxy.url, breaker=BREAKER))
    proxy.delay(0.005)
    with load.running():
        until(lambda: len(load.answers) > 50)
    load.assert_nobody_was_harmed()
    assert load.degraded == []
    assert load.limiter.breaker.opened == 0


@pytest.mark.parametrize("delay_s", [0.1, 0.5])
def test_delays_beyond_the_budget_open_the_breaker_and_one_request_at_a_time_probes(
    valkey: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy, delay_s: float
) -> None:
    publish(valkey, modes())
    load = Load(make_limiter(proxy.url, budget_ms=40, breaker=BREAKER, fail="closed"))
    valkey.config_resetstat()
    proxy.delay(delay_s)
    for sent in range(BREAKER.failures):
        assert load.limiter.breaker.state is BreakerState.CLOSED, sent
        assert load.ask().degraded
    assert load.limiter.breaker.opened == 1
    with load.running():
        until(lambda: load.limiter.breaker.probes >= 3)
    breaker = load.limiter.breaker
    assert breaker.opened == 1
    assert len(load.degraded) == len(load.answers)
    assert fcalls(valkey) <= BREAKER.failures + breaker.probes
    proxy.heal()
    until(load.is_well)
    assert load.errors == []


def test_after_a_slow_spell_what_was_sent_late_is_not_asked_again(
    valkey: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy
) -> None:
    publish(valkey, modes())
    load = Load(make_limiter(proxy.url, budget_ms=100, breaker=BREAKER))
    load.learn()
    valkey.config_resetstat()
    proxy.delay(0.3)
    assert load.ask().degraded
    until(lambda: fcalls(valkey) == 1)
    proxy.heal()
    until(load.is_well)
    load.assert_nobody_was_harmed()


@pytest.mark.faults_long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("delay_ms", [5, 20, 100, 500])
def test_each_delay_for_ten_seconds(
    valkey: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy, figures: Callable[[str], None], delay_ms: int
) -> None:
    publish(valkey, modes())
    load = Load(make_limiter(proxy.url, budget_ms=20))
    load.learn()
    proxy.delay(delay_ms / 2_000)  # both ways
    with load.running():
        time.sleep(10)
    share = len(load.degraded) / len(load.answers)
    breaker = load.limiter.breaker
    figures(f"{load.latencies()}, {share:.0%} degraded, opened {breaker.opened}×, {breaker.probes} probes")
    load.assert_nobody_was_harmed()
    if delay_ms >= 100:
        assert breaker.opened >= 1
