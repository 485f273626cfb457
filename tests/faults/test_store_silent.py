"""F2: the store is stopped, or somebody accepts the connection and never answers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
import redis

from headroom_edge.store.breaker import BreakerSettings
from tests.faults.load import Load, modes
from tests.faults.proxy import Proxy
from tests.headroom_edge.limiter.both import MakeLimiter, until
from tests.headroom_edge.limiter.world import publish
from tests.valkeys import SpareValkey

# Long enough for a busy machine, short enough to be waited for a few times.
BUDGET_MS = 250
QUICK = BreakerSettings(failures=3, cooldown_s=0.05)


class StutteringProxy(Proxy):
    """Lets half of a reply through on demand, and the rest of that connection's bytes later."""

    def __init__(self, host: str, port: int) -> None:
        self.halve = threading.Event()
        self._order = threading.Lock()
        self._rest: dict[socket.socket, bytes] = {}
        super().__init__(host, port)

    def _forward(self, data: bytes, sink: socket.socket) -> None:
        with self._order:
            if sink in self._rest:
                self._rest[sink] += data
                return
            if self.halve.is_set() and self._is_client(sink):
                half = len(data) // 2
                data, self._rest[sink] = data[:half], data[half:]
            super()._forward(data, sink)

    def _is_client(self, sink: socket.socket) -> bool:
        with self._lock:
            return any(sink is client for client, _server in self._pairs)

    def send_the_rest(self) -> None:
        """To whoever still listens; a client that dropped the connection does not."""
        with self._order:
            self.halve.clear()
            rest, self._rest = self._rest, {}
            for sink, data in rest.items():
                with suppress(OSError):
                    super()._forward(data, sink)


@pytest.fixture
def stutter(valkey_server: SpareValkey) -> Iterator[StutteringProxy]:
    with StutteringProxy("127.0.0.1", valkey_server.port) as wire:
        yield wire


def loaded(valkey: redis.Redis, make_limiter: MakeLimiter, url: str) -> Load:
    publish(valkey, modes())
    return Load(make_limiter(url, budget_ms=BUDGET_MS, breaker=QUICK, fail="closed"))


def test_a_stopped_store_costs_a_budget_until_the_breaker_opens(
    spare_valkey: Callable[..., SpareValkey], make_limiter: MakeLimiter
) -> None:
    server = spare_valkey()
    with server.client() as client:
        load = loaded(client, make_limiter, server.url)
    load.learn()
    with load.running():
        server.pause()
        until(lambda: load.limiter.breaker.opened > 0)
        until(lambda: load.limiter.breaker.probes > 1)
        server.resume()
        until(load.is_well)
    load.assert_nobody_was_harmed()
    assert load.degraded


def test_a_store_that_never_answers_at_connect_is_given_up(
    valkey: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy
) -> None:
    load = loaded(valkey, make_limiter, proxy.url)
    proxy.blackhole()
    until(lambda: load.ask().degraded and load.limiter.breaker.opened > 0)
    proxy.heal()
    load.learn()
    until(load.is_well)
    load.assert_nobody_was_harmed()


def test_a_store_that_falls_silent_later_is_given_up(
    valkey: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy
) -> None:
    load = loaded(valkey, make_limiter, proxy.url)
    load.learn()
    with load.running():
        proxy.blackhole()
        until(lambda: load.limiter.breaker.opened > 0)
        proxy.heal()
        until(load.is_well)
    load.assert_nobody_was_harmed()


def test_a_reply_that_breaks_off_never_reaches_another_request(
    valkey: redis.Redis, make_limiter: MakeLimiter, stutter: StutteringProxy
) -> None:
    load = loaded(valkey, make_limiter, stutter.url)
    load.learn()
    for _ in range(3):
        with load.running():
            stutter.halve.set()
            until(lambda: load.limiter.breaker.opened > 0 and load.limiter.breaker.probes > 0)
            stutter.send_the_rest()
            until(load.is_well)
    load.assert_nobody_was_harmed()


def test_a_caller_with_a_short_budget_gives_up_alone(
    valkey: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy
) -> None:
    publish(valkey, modes())
    load = Load(make_limiter(proxy.url))
    load.learn()
    with load.running():
        proxy.delay(0.02)
        until(lambda: load.limiter.check(tenant="acme", endpoint="search", budget_ms=5).degraded)
    load.assert_nobody_was_harmed()
    assert load.degraded == []


@pytest.mark.faults_long
@pytest.mark.timeout(600)
def test_stopped_for_half_a_minute(
    spare_valkey: Callable[..., SpareValkey], make_limiter: MakeLimiter, figures: Callable[[str], None]
) -> None:
    server = spare_valkey()
    with server.client() as client:
        publish(client, modes())
    load = Load(make_limiter(server.url, budget_ms=20))
    load.learn()
    with load.running():
        time.sleep(1)
        load.took_s.clear()
        server.pause()
        time.sleep(30)
        stopped = load.latencies()
        server.resume()
        start = time.monotonic()
        until(load.is_well)
        back_s = time.monotonic() - start
    load.assert_nobody_was_harmed()
    figures(f"stopped 30 s: {stopped}, {load.limiter.breaker.probes} probes, back after {back_s:.2f} s")
    assert back_s <= 2
