"""Real limiters, and what the platform reads of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from headroom_edge import keys
from headroom_edge.version import __version__
from quotas.publishing.enforcers import Enforcer, Leasing, enforcers_read, states_of
from quotas.publishing.store import connect
from tests.headroom_edge.limiter.both import Either, MakeLimiter
from tests.headroom_edge.limiter.conftest import make_limiter, tick_s
from tests.headroom_edge.limiter.leased import FIRST_ASK, Clock, ask, leased
from tests.headroom_edge.limiter.world import ENDPOINT, TENANT, configuration, limit, publish
from tests.valkeys import SpareValkey

__all__ = ["make_limiter", "tick_s"]

HOURLY = limit("hourly", "fixed_window", limit=5, window="1h")


class Server:
    """A store of its own, which the test may stop."""

    def __init__(self, server: SpareValkey) -> None:
        self.server = server
        self.client = server.client()

    def publish(self, revision: int) -> None:
        publish(self.client, configuration(HOURLY, revision=revision))

    def read(self) -> list[Enforcer]:
        with connect(self.server.url) as client:
            return enforcers_read(client)


@pytest.fixture
def server(spare_valkey: Callable[..., SpareValkey]) -> Iterator[Server]:
    server = Server(spare_valkey())
    server.publish(1)
    yield server
    server.client.close()


def beat(limiter: Either) -> None:
    limiter.core.chores.heartbeat.next_s = 0
    limiter.attend()


def check(limiter: Either) -> Any:
    return limiter.check(tenant=TENANT, endpoint=ENDPOINT)


def test_a_process_is_listed_with_its_revision_and_how_far_it_is_behind(
    server: Server, make_limiter: MakeLimiter
) -> None:
    limiter = make_limiter(server.server.url)
    check(limiter)
    beat(limiter)
    (found,) = server.read()
    assert (found.pid, found.version, found.revision, found.behind) == (os.getpid(), __version__, 1, 0)
    assert (found.state, found.is_alive) == ("ok", True)
    server.publish(4)
    assert [(each.behind, each.state) for each in server.read()] == [(3, "behind")]
    check(limiter)
    beat(limiter)
    assert [(each.revision, each.behind, each.state) for each in server.read()] == [(4, 0, "ok")]


def test_a_process_that_lost_the_store_for_a_moment_is_degraded(server: Server, make_limiter: MakeLimiter) -> None:
    limiter = make_limiter(server.server.url, budget_ms=100)
    check(limiter)
    server.server.pause()
    assert check(limiter).degraded
    server.server.resume()
    beat_until_told(server, limiter)
    assert states_of(server.read()) == {"degraded": 1, "behind": 0, "stale": 0, "ok": 0}


def beat_until_told(server: Server, limiter: Either) -> None:
    """The connection that waited in vain may have to be made anew first."""
    for _ in range(100):
        check(limiter)
        beat(limiter)
        if server.read():
            return
    raise AssertionError("no heartbeat arrived")


@pytest.mark.parametrize("lease_ms", [None, 20, 0])
def test_a_process_that_leases_names_its_endpoints_unless_a_limit_forbids_it(
    server: Server, make_limiter: MakeLimiter, lease_ms: int | None
) -> None:
    roomy = replace(limit("hourly", "fixed_window", limit=10_000, window="1h"), lease_ms=lease_ms)
    publish(server.client, configuration(roomy, revision=2))
    limiter = make_limiter(server.server.url, leases=True)
    Clock(limiter)
    spent = leased(ask(limiter, 2 * FIRST_ASK))
    beat(limiter)
    (found,) = server.read()
    assert (spent > 0, found.leases) == (lease_ms != 0, Leasing(100, () if lease_ms == 0 else (ENDPOINT,), 0))


def test_a_process_that_fell_silent_is_stale(server: Server, make_limiter: MakeLimiter) -> None:
    limiter = make_limiter(server.server.url)
    check(limiter)
    beat(limiter)
    seen = server.read()[0].seen
    server.client.zincrby(keys.enforcers(), -20_000_000, limiter.core.chores.heartbeat.enforcer)
    (found,) = server.read()
    assert (found.state, found.is_alive) == ("stale", False)
    assert (seen - found.seen).total_seconds() == pytest.approx(20)


def test_a_lost_list_is_an_empty_list(server: Server) -> None:
    server.client.flushall()
    assert server.read() == []
