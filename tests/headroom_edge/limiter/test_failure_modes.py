"""What is answered while the store is away, and what the store learns once it is back."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest
import redis

from headroom_edge import Decision, StoreError, keys
from headroom_edge.check import NOBODY
from headroom_edge.store.breaker import BreakerSettings
from tests.faults.proxy import Proxy
from tests.headroom_edge.limiter.both import Either, MakeLimiter, until
from tests.headroom_edge.limiter.world import (
    ENDPOINT,
    OTHER_TENANT,
    SUSPENDED_TENANT,
    TENANT,
    configuration,
    limit,
    publish,
)

NEVER_OPENS = BreakerSettings(failures=1_000, of=1_000)
QUICK = BreakerSettings(failures=3, of=20, cooldown_s=0.02)


def publish_mode(store: redis.Redis, on_failure: Any, revision: int = 1) -> None:
    hourly = limit("hourly", "fixed_window", limit=40, window="1h", on_failure=on_failure)
    publish(store, configuration(hourly, revision=revision))


def check(limiter: Either, tenant: str = TENANT) -> Decision:
    return limiter.check(tenant=tenant, endpoint=ENDPOINT)


def test_who_names_no_tenant_is_unknown_and_not_let_in_by_an_outage(
    valkey: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy
) -> None:
    publish_mode(valkey, "open")
    limiter = make_limiter(proxy.url, fail="open", breaker=NEVER_OPENS)
    assert check(limiter, NOBODY).reason == "unknown_tenant"
    proxy.refuse()
    assert (check(limiter, NOBODY).allowed, check(limiter).allowed) == (False, True)


def test_before_the_first_reply_the_default_holds(
    valkey: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.refuse()
    assert check(make_limiter(proxy.url)).failure == "open"
    assert check(make_limiter(proxy.url, fail="closed")).failure == "closed"
    monkeypatch.setenv("HEADROOM_FAIL", "closed")
    assert check(make_limiter(proxy.url)).failure == "closed"
    assert check(make_limiter(proxy.url, fail="open")).failure == "open"


@pytest.mark.parametrize(("mode", "allowed"), [("open", True), ("closed", False)])
def test_a_plan_keeps_its_own_mode(
    valkey: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy, mode: str, allowed: bool
) -> None:
    publish_mode(valkey, mode)
    limiter = make_limiter(proxy.url, fail="closed" if allowed else "open")
    assert not check(limiter).degraded
    proxy.refuse()
    decision = check(limiter)
    assert (decision.failure, decision.allowed, decision.reason) == (mode, allowed, "unavailable")
    assert decision.retry_after_ms == (0 if allowed else 1_000)
    assert decision.headers()["Headroom-Degraded"] == mode
    assert check(limiter, OTHER_TENANT).failure != mode


def test_a_new_revision_brings_a_new_mode(valkey: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy) -> None:
    publish_mode(valkey, "open")
    limiter = make_limiter(proxy.url)
    check(limiter)
    publish_mode(valkey, "closed", revision=2)
    assert check(limiter).revision == 2
    proxy.refuse()
    assert check(limiter).failure == "closed"


def test_a_suspended_tenant_stays_out(store: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy) -> None:
    limiter = make_limiter(proxy.url, fail="open")
    assert check(limiter, SUSPENDED_TENANT).reason == "suspended"
    proxy.refuse()
    assert not check(limiter, SUSPENDED_TENANT).allowed


def test_local_limits_by_the_share_of_this_process(
    valkey: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy
) -> None:
    publish_mode(valkey, "local")
    for other in ("b", "c", "d"):
        valkey.fcall("hr_heartbeat", 1, keys.ALL, other, "{}")
    limiter = make_limiter(proxy.url, fail="closed", breaker=NEVER_OPENS)
    check(limiter)
    limiter.attend()
    proxy.refuse()
    decisions = [check(limiter) for _ in range(15)]
    assert [decision.allowed for decision in decisions] == [True] * 10 + [False] * 5
    assert {decision.failure for decision in decisions} == {"local"}
    denied = decisions[-1]
    assert (denied.reason, denied.limit, denied.quota, denied.revision) == ("limit", "hourly", 10, 1)
    assert denied.headers()["Retry-After"]


def test_local_without_its_plan_falls_back_to_the_default(
    valkey: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy
) -> None:
    publish_mode(valkey, "local")
    limiter, lenient = make_limiter(proxy.url, fail="closed"), make_limiter(proxy.url, fail="local")
    assert not check(limiter).degraded
    assert not check(lenient).degraded
    proxy.refuse()
    assert check(limiter).failure == "closed"
    assert check(lenient).failure == "open"


def test_a_local_plan_is_fetched_again_when_the_revision_changes(
    valkey: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy
) -> None:
    publish_mode(valkey, "local")
    limiter = make_limiter(proxy.url, breaker=NEVER_OPENS)
    check(limiter)
    limiter.attend()
    assert limiter.core.failures.take_wanted(10) == []
    check(limiter)
    assert limiter.core.failures.take_wanted(10) == []
    publish_mode(valkey, "local", revision=2)
    check(limiter)
    limiter.attend()
    proxy.refuse()
    assert check(limiter).revision == 2


def test_degraded_decisions_are_reported_once_the_store_is_back(
    valkey: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy
) -> None:
    publish_mode(valkey, "closed")
    limiter = make_limiter(proxy.url, breaker=QUICK)
    check(limiter)
    proxy.refuse()
    for _ in range(7):
        assert check(limiter).degraded
    proxy.heal()
    until(lambda: not check(limiter).degraded)
    refused = limiter.degraded
    limiter.attend()
    usage = cast("dict[bytes, bytes]", valkey.hgetall(keys.usage(keys.shard_of(TENANT))))
    reported = [int(value) for field, value in usage.items() if field.endswith(b"00001001c")]
    assert sum(value % 2**24 for value in reported) == refused
    assert sum(value // 2**24 for value in reported) == refused
    limiter.attend()
    assert valkey.hgetall(keys.usage(keys.shard_of(TENANT))) == usage


def test_a_release_that_got_lost_is_made_up_for(valkey: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy) -> None:
    publish(valkey, configuration(limit("inflight", "concurrency", limit=1, hold="1h")))
    limiter = make_limiter(proxy.url, breaker=QUICK)
    with limiter.hold(tenant=TENANT, endpoint=ENDPOINT) as decision:
        assert decision.allowed
        proxy.refuse()
    proxy.heal()
    until(lambda: not limiter.peek(tenant=TENANT, endpoint=ENDPOINT).degraded)
    assert not limiter.peek(tenant=TENANT, endpoint=ENDPOINT).allowed
    limiter.attend()
    assert limiter.peek(tenant=TENANT, endpoint=ENDPOINT).allowed


def test_a_store_without_configuration_is_a_failure_too(valkey: redis.Redis, limiter: Either) -> None:
    publish_mode(valkey, "closed")
    assert not check(limiter).degraded
    valkey.flushall()
    decision = check(limiter)
    assert (decision.allowed, decision.reason, decision.failure) == (False, "not_ready", "closed")


@pytest.mark.parametrize("error", ["LOADING Valkey is loading", "READONLY cannot write", "TRYAGAIN later"])
def test_an_error_of_the_store_is_answered_by_the_failure_mode(
    valkey: redis.Redis, limiter: Either, error: str
) -> None:
    publish_mode(valkey, "closed")
    check(limiter)
    broken = (
        f"#!lua name=headroom\nredis.register_function('hr_check', function() return redis.error_reply('{error}') end)"
    )
    valkey.function_load(broken, replace=True)
    try:
        assert check(limiter).failure == "closed"
        assert limiter.breaker.opened == 0
    finally:
        valkey.function_delete("headroom")
    assert not check(limiter).degraded


def test_an_answer_that_makes_no_sense_is_no_decision(valkey: redis.Redis, limiter: Either) -> None:
    publish_mode(valkey, "closed")
    check(limiter)
    broken = "#!lua name=headroom\nredis.register_function('hr_check', function() return {1, 'ok'} end)"
    valkey.function_load(broken, replace=True)
    try:
        assert check(limiter).failure == "closed"
    finally:
        valkey.function_delete("headroom")


def test_refund_and_release_never_raise_but_reset_does(
    store: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy
) -> None:
    limiter = make_limiter(proxy.url, rows=True)
    decision = check(limiter)
    proxy.refuse()
    assert limiter.refund(decision) == 0
    assert limiter.release(decision) == 0
    with pytest.raises(StoreError):
        limiter.reset(tenant=TENANT, endpoint=ENDPOINT)


def test_being_degraded_is_counted_and_logged_but_not_for_every_decision(
    valkey: redis.Redis, make_limiter: MakeLimiter, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    limiter = make_limiter(proxy.url.replace("redis://", "redis://:hunter2@"))
    limiter.core.failures._clock = lambda: 1_000.0
    proxy.refuse()
    with caplog.at_level(logging.WARNING, "headroom_edge"):
        for _ in range(50):
            check(limiter)
    assert limiter.degraded == 50
    assert len(caplog.records) == 1
    assert f"127.0.0.1:{proxy.port}" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"fail": "ajar"}, "must be open, closed or local"),
        ({"budget_ms": 0}, "budget_ms must be above 0"),
        ({"shards": 0}, "shards must be at least 1"),
        ({"connections": 0}, "connections must be at least 1"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    make_limiter: MakeLimiter, valkey_url: str, settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        make_limiter(valkey_url, **settings)


def test_other_shards_than_the_stores_are_a_failure_that_says_so(
    store: redis.Redis, make_limiter: MakeLimiter, valkey_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    limiter = make_limiter(valkey_url, shards=50, fail="closed")
    assert check(limiter).failure == "closed"
    assert "HRSHARD" in caplog.text
