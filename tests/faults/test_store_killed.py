"""F1: the store is killed under load."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from headroom_edge.store.breaker import BreakerSettings
from tests.faults.load import Load, modes
from tests.headroom_edge.limiter.both import MakeLimiter, until
from tests.headroom_edge.limiter.world import publish
from tests.valkeys import SpareValkey


def started(
    spare_valkey: Callable[..., SpareValkey], make_limiter: MakeLimiter, **settings: object
) -> tuple[SpareValkey, Load]:
    server = spare_valkey(durable=True)
    with server.client() as client:
        publish(client, modes())
    load = Load(make_limiter(server.url, **settings))
    assert load.is_well()
    load.limiter.attend()
    return server, load


def test_callers_get_the_declared_mode_and_the_store_is_used_again_when_it_is_back(
    spare_valkey: Callable[..., SpareValkey], make_limiter: MakeLimiter
) -> None:
    server, load = started(spare_valkey, make_limiter)
    with load.running():
        server.kill()
        until(lambda: load.limiter.breaker.opened > 0)
        server.start()
        until(load.is_well)
    load.assert_nobody_was_harmed()
    assert {decision.failure for decision in load.degraded} == {"open", "closed", "local"}
    assert load.limiter.degraded == len(load.degraded)


def test_an_open_breaker_asks_nobody_but_the_probe(
    spare_valkey: Callable[..., SpareValkey], make_limiter: MakeLimiter
) -> None:
    server, load = started(spare_valkey, make_limiter, breaker=BreakerSettings(failures=3, cooldown_s=3_600))
    server.kill()
    until(lambda: load.ask().degraded and load.limiter.breaker.opened > 0)
    server.start()
    for _ in range(100):
        assert load.ask().degraded
    with server.client() as client:
        assert "cmdstat_fcall" not in client.info("commandstats")
    load.assert_nobody_was_harmed()


@pytest.mark.faults_long
@pytest.mark.timeout(600)
def test_killed_again_and_again(
    spare_valkey: Callable[..., SpareValkey], make_limiter: MakeLimiter, figures: Callable[[str], None]
) -> None:
    server, load = started(spare_valkey, make_limiter, budget_ms=20)
    back_s: list[float] = []
    for _ in range(10):
        with load.running():
            time.sleep(1)
            server.kill()
            time.sleep(2)
            server.start()
            start = time.monotonic()
            until(load.is_well)
            back_s.append(time.monotonic() - start)
    load.assert_nobody_was_harmed()
    figures(f"10 rounds, {load.latencies()}, back after at most {max(back_s):.2f} s")
    assert max(back_s) <= 2
