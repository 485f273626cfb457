"""Heartbeats and the other things an enforcer says on its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import redis

from config.data_folders import ROOT
from headroom_edge import keys
from headroom_edge.failure import FailureModes
from headroom_edge.heartbeat import Heartbeat
from headroom_edge.version import __version__
from tests.headroom_edge.limiter.both import Either, MakeLimiter, until
from tests.headroom_edge.limiter.world import ENDPOINT, TENANT


def test_it_says_by_itself_that_it_is_there(
    store: redis.Redis, limiter: Either, tick_s: Callable[[float], None]
) -> None:
    tick_s(0.01)
    limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    enforcer = limiter.core.chores.heartbeat.enforcer.encode()
    until(lambda: store.zscore(keys.enforcers(), enforcer) is not None)
    about = json.loads(store.hget(keys.enforcer_info(), enforcer.decode()) or "")
    assert about["pid"] == os.getpid()
    assert about["degraded"] == 0


LEFT_OPEN = """
import sys, time, redis
from headroom_edge import Limiter, keys

limiter = Limiter.from_url(sys.argv[1], budget_ms=60_000, connect_timeout_ms=60_000)
limiter.check(tenant=sys.argv[2], endpoint=sys.argv[3])
enforcer = limiter._core.chores.heartbeat.enforcer
with redis.Redis.from_url(sys.argv[1]) as store:
    while store.zscore(keys.enforcers(), enforcer) is None:
        time.sleep(0.05)
print(enforcer)
"""


def test_a_process_that_ends_is_off_the_list_although_nobody_closed_it(store: redis.Redis, valkey_url: str) -> None:
    command = [sys.executable, "-c", LEFT_OPEN, valkey_url, TENANT, ENDPOINT]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True)
    assert store.zscore(keys.enforcers(), ended.stdout.strip()) is None


def test_enforcers_learn_how_many_they_are(store: redis.Redis, make_limiter: MakeLimiter, valkey_url: str) -> None:
    limiters = [make_limiter(valkey_url) for _ in range(3)]
    for limiter in [*limiters, *limiters]:
        limiter.check(tenant=TENANT, endpoint=ENDPOINT)
        limiter.core.chores.heartbeat.next_s = 0
        limiter.attend()
    assert [limiter.core.failures.share for limiter in limiters] == [3, 3, 3]


def test_between_heartbeats_nothing_is_sent(store: redis.Redis, limiter: Either) -> None:
    limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    assert len(limiter.core.chores.take()) == 1
    assert limiter.core.chores.take() == []


def about_of(store: redis.Redis, limiter: Either) -> dict[str, Any]:
    """What its next heartbeat says."""
    limiter.core.chores.heartbeat.next_s = 0
    limiter.attend()
    found: dict[str, Any] = json.loads(store.hget(keys.enforcer_info(), limiter.core.chores.heartbeat.enforcer) or "")
    return found


def test_it_tells_its_version_and_the_revision_it_decides_with(store: redis.Redis, limiter: Either) -> None:
    limiter.ready(60_000)
    assert "revision" not in about_of(store, limiter)
    decision = limiter.check(tenant=TENANT, endpoint=ENDPOINT)
    about = about_of(store, limiter)
    assert (about["version"], about["revision"], about["decided_s"]) == (__version__, decision.revision, 0)
    assert about["shard"] == keys.shard_of(TENANT)


def test_it_is_degraded_until_a_minute_after_the_last_decision_without_the_store() -> None:
    now = [1_000.0]
    failures = FailureModes("open")
    heartbeat = Heartbeat(failures, keys.SHARDS, 5.0, lambda: now[0])
    told = []
    for seconds, degraded in ((0, 0), (10, 3), (50, 3), (80, 3), (90, 4), (160, 4)):
        now[0], failures.degraded = 1_000.0 + seconds, degraded
        command = heartbeat.due() or b""
        told.append(json.loads(command[command.index(b'{"host') :])["degraded"])
    assert told == [0, 3, 3, 0, 4, 0]


def test_it_leaves_the_list_when_it_is_closed(store: redis.Redis, make_limiter: MakeLimiter, valkey_url: str) -> None:
    stays, leaves = make_limiter(valkey_url), make_limiter(valkey_url)
    for limiter in (stays, leaves):
        limiter.check(tenant=TENANT, endpoint=ENDPOINT)
        about_of(store, limiter)
    leaves.close()
    until(lambda: store.zscore(keys.enforcers(), leaves.core.chores.heartbeat.enforcer) is None)
    assert not store.hexists(keys.enforcer_info(), leaves.core.chores.heartbeat.enforcer)
    assert store.zscore(keys.enforcers(), stays.core.chores.heartbeat.enforcer) is not None
