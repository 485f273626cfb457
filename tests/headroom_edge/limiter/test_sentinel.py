"""Decisions on a primary that three real Sentinels watch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headroom_edge.keys import tenant_prefix
from tests.clusters import SpareSentinels
from tests.headroom_edge.limiter.both import Either, MakeLimiter, OnCallbacks, OnLoop, OnThreads, until
from tests.headroom_edge.limiter.world import ENDPOINT, TENANT, configuration, limit, publish
from tests.sweeps import each_once, first_of

WAYS = [OnThreads, OnLoop, OnCallbacks]
HOURLY = limit("hourly", "fixed_window", limit=1_000_000, window="1h")


def started(sentinels: SpareSentinels, make_limiter: MakeLimiter) -> Either:
    with sentinels.primary.client() as client:
        publish(client, configuration(HOURLY))
        client.wait(1, 60_000)
    limiter = make_limiter(sentinels.url, budget_ms=1_000)
    assert limiter.ready(60_000)
    assert not limiter.check(tenant=TENANT, endpoint=ENDPOINT, budget_ms=60_000).degraded
    return limiter


def by_kill(sentinels: SpareSentinels) -> None:
    sentinels.primary.kill()


def by_stop(sentinels: SpareSentinels) -> None:
    sentinels.primary.pause()


def by_command(sentinels: SpareSentinels) -> None:
    sentinels.fail_over()


@pytest.mark.parametrize(
    ("make_limiter", "fail_over"),
    each_once(WAYS, [by_kill, by_stop, by_command]),
    indirect=["make_limiter"],
)
def test_it_follows_the_primary_after_a_failover(
    sentinels: SpareSentinels, make_limiter: MakeLimiter, fail_over: Callable[[SpareSentinels], None]
) -> None:
    limiter = started(sentinels, make_limiter)
    fail_over(sentinels)
    sentinels.wait_for_promotion()
    # On command, the former primary learns only after the promotion that it is none any more.
    until(lambda: counted_by_the_new_primary(sentinels, limiter))


def counted_by_the_new_primary(sentinels: SpareSentinels, limiter: Either) -> bool:
    decision = limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    with sentinels.replica.client() as client:
        told = client.fcall("hr_peek", 1, tenant_prefix(TENANT), TENANT, ENDPOINT, "1")
    return not decision.degraded and told[4] == decision.remaining - 1


def test_without_any_sentinel_the_failure_mode_decides(make_limiter: MakeLimiter) -> None:
    limiter = make_limiter("redis+sentinel://127.0.0.1:1,127.0.0.1:2/main", fail="closed")
    decision = limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    assert (decision.allowed, decision.failure) == (False, "closed")


@pytest.mark.parametrize("make_limiter", first_of(WAYS), indirect=True)
def test_an_unknown_name_is_told(
    sentinels: SpareSentinels, make_limiter: MakeLimiter, caplog: pytest.LogCaptureFixture
) -> None:
    limiter = make_limiter(sentinels.url.replace("/main/", "/elsewhere/"), fail="closed")
    assert limiter.check(tenant=TENANT, endpoint=ENDPOINT).failure == "closed"
    assert "knows no primary named elsewhere" in caplog.text
