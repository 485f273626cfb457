"""A new key is handed out once enforcers know it, and at once where nobody publishes."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from quotas.api_keys import IssuedKey, api_key_issue
from quotas.models.jobs import record_heartbeat
from quotas.publishing import key_arrival
from quotas.publishing.key_arrival import key_arrives
from tests.quotas.publishing.worlds import SAID, publisher_for


@pytest.fixture
def issued(client: redis.Redis, world: None) -> IssuedKey:
    return api_key_issue(tenant="acme", **SAID)


def test_it_waits_until_redis_has_the_key(
    client: redis.Redis, issued: IssuedKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        publisher_for(client).publish()

    record_heartbeat("publisher")
    monkeypatch.setattr("time.sleep", pause)
    assert key_arrives(issued.row)
    assert pauses == [key_arrival.PAUSE_S]
    assert key_arrives(issued.row)
    assert len(pauses) == 1


def test_it_gives_up_where_nobody_publishes(issued: IssuedKey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_arrival, "PATIENCE_S", float("inf"))
    assert not key_arrives(issued.row)


def test_it_gives_up_after_a_while(issued: IssuedKey, monkeypatch: pytest.MonkeyPatch) -> None:
    record_heartbeat("publisher")
    monkeypatch.setattr(key_arrival, "PATIENCE_S", 0.1)
    assert not key_arrives(issued.row)


def test_it_gives_up_where_redis_is_away(issued: IssuedKey, settings: Any) -> None:
    record_heartbeat("publisher")
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert not key_arrives(issued.row)
