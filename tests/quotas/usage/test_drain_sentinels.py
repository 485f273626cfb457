"""F5 behind Sentinels: a promotion is a gap and an event, and what was set aside before it is counted once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest
import redis

from config.embedded_cluster import wait_until
from quotas.models import AuditEvent
from quotas.models.usage import BEGINNING, DrainState, GapRecord
from quotas.publishing import store
from quotas.usage import store_nodes
from quotas.usage.drain import drain
from tests.clusters import SpareSentinels
from tests.quotas.usage.counters import REPLICAS_MS, Hit, count, expected, in_postgres, in_redis
from tests.valkeys import SpareValkey

pytestmark = pytest.mark.django_db(transaction=True)


def connect(sentinels: SpareSentinels) -> redis.Redis:
    return store.connect(sentinels.url, as_text=False, patience_seconds=120)


def promote(sentinels: SpareSentinels) -> None:
    """And all Sentinels say so."""
    sentinels.primary.kill()
    sentinels.wait_for_promotion()
    place = (b"127.0.0.1", str(sentinels.replica.port).encode())

    def say_so() -> bool:
        return all(master_by(port) == place for port in sentinels.ports)

    wait_until(say_so, "the Sentinels name the new primary", 120)


def master_by(port: int) -> tuple[bytes, ...]:
    with redis.Redis(port=port) as sentinel:
        return tuple(sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"))


def test_a_promotion_between_take_and_done_loses_and_doubles_nothing(
    sentinels: SpareSentinels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_nodes, "REPLICAS_MS", REPLICAS_MS)
    hits = [Hit(tenant, outcome=outcome) for tenant in range(1, 100) for outcome in "ad"]
    with connect(sentinels) as client:
        last = drain(client).at
        count(client, hits)
        promoted: list[str] = []

        def observe(step: str) -> None:
            if step == "committed" and not promoted:
                promoted.append(step)
                promote(sentinels)

        drain(client, on_step=observe)
        assert promoted
    with connect(sentinels) as client:
        drain(client)
        more = [Hit(7)]
        count(client, more)
        drain(client)
        drain(client)
        assert in_postgres() == expected([*hits, *more])
        assert not in_redis(client)
    check_the_record(sentinels, last)


def check_the_record(sentinels: SpareSentinels, last: datetime) -> None:
    gap = GapRecord.objects.exclude(start=BEGINNING).get()
    assert gap.shards is None
    assert gap.start >= last
    assert gap.end <= DrainState.objects.get().drained_at
    assert gap.words == "Redis was down for a while, or another server took over."
    event = AuditEvent.objects.get(kind="store_failover")
    assert event.detail["node"] == f"127.0.0.1:{sentinels.replica.port}"
    assert event.detail["former"] == [f"127.0.0.1:{sentinels.primary.port}"]
    assert len(event.detail["shards"]) == event.detail["of"]


def test_counts_that_a_replica_has_not_copied_wait(sentinels: SpareSentinels, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that took over without the batch would still have its counts as current ones."""
    with connect(sentinels) as client:
        drain(client)
        hits = [Hit(1), Hit(2)]
        count(client, hits)
        # The Sentinels do not promote a replica that they cannot reach.
        sentinels.replica.pause()
        assert drain(client).batches == 0
        sentinels.replica.resume()
        monkeypatch.setattr(store_nodes, "REPLICAS_MS", REPLICAS_MS)
        drain(client)
        assert in_postgres() == expected(hits)
        assert not in_redis(client)


def test_a_restart_is_a_gap_and_no_failover(spare_valkey: Callable[..., SpareValkey]) -> None:
    server = spare_valkey()
    with server.client() as client:
        drain(client)
    server.kill()
    server.start()
    with server.client() as client:
        drain(client)
    assert GapRecord.objects.exclude(start=BEGINNING).count() == 1
    assert not AuditEvent.objects.filter(kind="store_failover").exists()
