"""What Redis itself lost is gone: the time it lost is on record."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import QuerySet

from quotas.models.usage import BEGINNING, DrainState, GapRecord
from quotas.usage.drain import drain
from tests.quotas.usage.counters import Hit, count, expected, in_postgres
from tests.valkeys import SpareValkey

pytestmark = pytest.mark.django_db(transaction=True)


def gaps() -> QuerySet[GapRecord]:
    """Without the one that everything begins with."""
    return GapRecord.objects.exclude(start=BEGINNING)


def test_the_time_before_the_first_count_is_a_gap(spare_valkey: Callable[..., SpareValkey]) -> None:
    with spare_valkey().client() as client:
        second = client.time()[0] - 3_600
        count(client, [Hit(1, second=second), Hit(1)])
        drain(client)
        drain(client)
    gap = GapRecord.objects.get()
    assert (gap.start, gap.end) == (BEGINNING, datetime.fromtimestamp(second, UTC))


def test_the_same_server_leaves_no_gap(spare_valkey: Callable[..., SpareValkey]) -> None:
    with spare_valkey().client() as client:
        drain(client)
        drain(client)
    assert not gaps().exists()


def test_a_restart_is_a_gap_from_the_last_drain_to_the_new_start(spare_valkey: Callable[..., SpareValkey]) -> None:
    server = spare_valkey(durable=False)
    with server.client() as client:
        last = drain(client).at
        count(client, [Hit(1)])
    server.kill()
    server.start()
    with server.client() as client:
        drain(client)
        drain(client)
    gap = gaps().get()
    assert gap.start == last
    assert last <= gap.end <= DrainState.objects.get().drained_at
    assert gap.reason == "Redis was down for a while, or another server took over."


def test_counts_that_survived_the_restart_are_drained(spare_valkey: Callable[..., SpareValkey]) -> None:
    server, hits = spare_valkey("--appendfsync", "always", durable=True), [Hit(1), Hit(2)]
    with server.client() as client:
        drain(client)
        count(client, hits)
    server.kill()
    server.start()
    with server.client() as client:
        drain(client)
    assert in_postgres() == expected(hits)


def test_a_server_that_took_over_is_a_gap_up_to_now(spare_valkey: Callable[..., SpareValkey]) -> None:
    with spare_valkey().client() as old, spare_valkey().client() as promoted:
        last = drain(old).at
        now = drain(promoted).at
    gap = gaps().get()
    assert (gap.start, gap.end) == (last, now)


def test_a_drain_that_was_overtaken_records_nothing(spare_valkey: Callable[..., SpareValkey]) -> None:
    with spare_valkey().client() as old, spare_valkey().client() as new:
        drain(new)
        DrainState.objects.update(drained_at=drain(new).at + timedelta(seconds=5))
        drain(old)
        assert DrainState.objects.get().run_id == new.info("server")["run_id"]
    assert not gaps().exists()
