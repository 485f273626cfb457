"""Limits of everyone: all shards judge one record, so an edit must reach them at one moment."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import redis

from headroom_edge import keys
from quotas.policies.edit import policy_create, policy_update
from quotas.publishing import publisher as publishing
from quotas.publishing import store
from tests.quotas.publishing.worlds import ENDPOINT, FORCED, differences, publisher_for, tier_edit

BURST = 1_000_000
RATES = range(1, 9)  # a plan can carry over from the last eight


def everyone(rate: int) -> list[dict[str, Any]]:
    return [{"name": "backend", "algorithm": "token_bucket", "rate": rate, "per": "1h", "burst": BURST}]


class Asker:
    """Checks for one tenant without pause, on a connection of its own, several at once."""

    def __init__(self, url: str, tenant: str) -> None:
        self.allowed = 0
        self._words = ("FCALL", "hr_check", 1, keys.tenant_prefix(tenant), tenant, ENDPOINT, "1")
        self._client = store.connect(url)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        with self._client:
            while not self._is_over.is_set():
                with self._client.pipeline(transaction=False) as pipe:
                    for _ in range(20):
                        pipe.execute_command(*self._words)  # type: ignore[no-untyped-call]
                    self.allowed += sum(int(reply[0]) for reply in pipe.execute())

    def stop(self) -> int:
        self._is_over.set()
        self._thread.join()
        return self.allowed


def left(client: redis.Redis) -> int:
    reply: Any = client.fcall("hr_peek", 1, keys.tenant_prefix("acme"), "acme", ENDPOINT, "1", "ALL")
    return next(int(row[4]) for row in reply[12:] if row[0] == "backend")


@pytest.mark.parametrize(("delta_max", "together_max"), [(1_000, 1_000_000), (0, 1_000_000), (1_000, 0)])
def test_edits_of_a_global_limit_forget_nothing_that_was_admitted(
    client: redis.Redis,
    valkey_url: str,
    world: None,
    monkeypatch: pytest.MonkeyPatch,
    delta_max: int,
    together_max: int,
) -> None:
    monkeypatch.setattr(publishing, "DELTA_MAX", delta_max)
    monkeypatch.setattr(publishing, "TOGETHER_MAX", together_max)
    policy_create(name="backend", endpoint=ENDPOINT, limits=everyone(RATES[0]), **FORCED)
    tier_edit(BURST)
    publisher = publisher_for(client)
    publisher.publish()
    askers = [Asker(valkey_url, tenant) for tenant in ("acme", "bob", "acme", "bob")]
    for rate in RATES[1:]:
        policy_update(name="backend", limits=everyone(rate), **FORCED)
        publisher.publish()
    allowed = sum([asker.stop() for asker in askers])
    # Whatever a shard did not know of what the others had let through would be left again.
    assert left(client) <= BURST - allowed
    assert differences(client) == []
