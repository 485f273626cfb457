from __future__ import annotations

import json
import time
from typing import Any

import pytest
import redis
from django.test import Client

from headroom_edge import keys
from tests.access.people import machine, token
from tests.quotas.heartbeats import fall_silent, heartbeat, leasing

pytestmark = pytest.mark.django_db
FOREVER = 2**52


@pytest.fixture
def reader() -> Client:
    return machine(token("viewer", "read"))


def report(valkey: redis.Redis, name: str, text: str, end_us: int = FOREVER) -> None:
    valkey.zadd(keys.enforcers(), {name: end_us})
    valkey.hset(keys.enforcer_info(), name, text)


def shown(reader: Client, **asked: Any) -> list[dict[str, Any]]:
    """All pages, without the processes of the tests themselves, which may have sent a heartbeat too."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    while True:
        body = reader.get("/v1/enforcers", {**asked, **cursor}).json()
        found += body["items"]
        cursor = {"cursor": body["next"]}
        if body["next"] is None:
            return [each for each in found if each["id"].startswith("one")]


def test_what_a_process_reports_is_shown(reader: Client, valkey: redis.Redis) -> None:
    valkey.set(keys.shard_prefix(5), "12.abc+bypass")
    about = {"host": "web-1", "pid": 7, "version": "0.2.0", "degraded": 0, "shard": 5, "revision": 10, "decided_s": 3}
    report(valkey, "one", json.dumps(about))
    (found,) = shown(reader)
    assert found.pop("seen")[-1] == "Z"
    assert found == {
        "id": "one",
        "host": "web-1",
        "pid": 7,
        "version": "0.2.0",
        "revision": 10,
        "behind": 2,
        "decided_s": 3,
        "state": "behind",
        "leases": None,
    }


def test_a_process_that_leases_says_on_what_and_how_long(reader: Client, valkey: redis.Redis) -> None:
    leasing(valkey, "one-leasing", "rides:get", "payments:charge", ms=250, more=3)
    heartbeat(valkey, "one-plain")
    assert [each["leases"] for each in shown(reader, leases="true")] == [
        {"ms": 250, "endpoints": ["rides:get", "payments:charge"], "more": 3}
    ]
    assert [(each["id"], each["leases"]) for each in shown(reader, leases="false")] == [("one-plain", None)]
    assert len(shown(reader)) == 2
    fall_silent(valkey, "one-leasing")
    assert shown(reader, leases="true") == []
    assert reader.get("/v1/enforcers?leases=perhaps").status_code == 400


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "null",
        '{"host": null, "pid": "x", "shard": 1e9, "revision": -1}',
        '{"shard": 4000000, "revision": true, "decided_s": "soon"}',
        '{"host": "web-1", "pid": 7, "degraded": 0}',
    ],
)
def test_an_older_or_broken_report_is_shown_as_far_as_it_goes(reader: Client, valkey: redis.Redis, text: str) -> None:
    report(valkey, "one", text)
    (found,) = shown(reader)
    assert (found["version"], found["revision"], found["behind"], found["state"]) == ("", None, None, "ok")


def test_pages_and_states(reader: Client, valkey: redis.Redis) -> None:
    silent_us = int(time.time() - 60) * 1_000_000
    for number in range(5):
        degraded = {"degraded": 1} if number == 3 else {}
        end_us = silent_us if number == 4 else FOREVER
        report(valkey, f"one-{number}", json.dumps({"host": f"web-{number}", "pid": 1, **degraded}), end_us)
    hosts = [each["host"] for each in shown(reader, limit=2)]
    assert hosts == ["web-3", "web-4", "web-0", "web-1", "web-2"]
    assert [each["host"] for each in shown(reader, state="stale")] == ["web-4"]
    assert len(reader.get("/v1/enforcers?limit=2").json()["items"]) == 2
    assert reader.get("/v1/enforcers?state=asleep").status_code == 400
    assert reader.get("/v1/enforcers?cursor=x").status_code == 400


def test_redis_away_is_said_so(reader: Client, settings: object) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"  # type: ignore[attr-defined]
    assert reader.get("/v1/enforcers").status_code == 503
