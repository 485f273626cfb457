"""Slices of time are made ahead, and dropped once they are over."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest
import redis
from django.db import connection, transaction
from django.test import override_settings

from quotas.models.packed_usage import PackedMinute, PackedStep
from quotas.models.usage import DrainBatch, Partitioned, UsageDay, UsageMinute, UsageStep
from quotas.models.usage_rates import PARTITIONED
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.usage import partitions
from quotas.usage.drain import drain
from quotas.usage.fold import fold_all
from quotas.usage.maintenance import delete_old_batch_ids, maintain_usage_tables
from quotas.usage.partitions import (
    Partition,
    create_future_partitions,
    drop_expired_partitions,
    ensure_partitions,
    partition_of,
)
from quotas.usage.rollups import add_cells
from tests.quotas.usage.counters import Hit, count

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime(2031, 3, 5, 14, 30, tzinfo=UTC)


def starts(model: type[Partitioned]) -> list[datetime]:
    return sorted(part.start for part in partitions.existing_partitions(model) if part.start.year >= NOW.year - 1)


@pytest.fixture(autouse=True)
def _no_slices_left() -> None:
    drop_expired_partitions(datetime(2200, 1, 1, tzinfo=UTC))


def test_slices_begin_at_whole_multiples_of_their_length() -> None:
    assert partition_of(PackedStep, NOW) == Partition(PackedStep, datetime(2031, 3, 5, 12, tzinfo=UTC))
    assert partition_of(PackedMinute, NOW).name == "quotas_packed_1m_20310305t00"
    for model in PARTITIONED:
        part = partition_of(model, NOW)
        assert part.start <= NOW < part.end


def test_the_job_makes_the_present_slice_and_two_ahead() -> None:
    assert create_future_partitions(NOW) == 3 * len(PARTITIONED)
    assert starts(PackedMinute) == [datetime(2031, 3, day, tzinfo=UTC) for day in (5, 6, 7)]
    assert create_future_partitions(NOW) == 0


def test_the_job_drops_what_is_no_longer_kept_and_nothing_else() -> None:
    create_future_partitions(NOW - timedelta(days=3))
    create_future_partitions(NOW)
    with override_settings(HEADROOM_KEEP_DAYS={model.keep: 2 for model in PARTITIONED}):
        drop_expired_partitions(NOW)
    assert starts(PackedMinute)[0] == datetime(2031, 3, 3, tzinfo=UTC)
    assert starts(PackedStep)[0] == datetime(2031, 3, 5, 12, tzinfo=UTC)
    assert partition_of(UsageDay, NOW).start in starts(UsageDay)


def test_a_slice_in_use_is_dropped_another_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "LOCK_TIMEOUT", "50ms")
    create_future_partitions(NOW)
    reader = connection.copy()
    with transaction.atomic(), reader.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT * FROM quotas_usage_1m")
        later = NOW + timedelta(days=40)
        dropped = drop_expired_partitions(later)
        cursor.execute("COMMIT")
    reader.close()
    assert starts(PackedMinute)
    assert drop_expired_partitions(later) > 0
    assert dropped > 0
    assert not starts(PackedMinute)


def test_a_missing_slice_is_made_by_the_fold(valkey: redis.Redis) -> None:
    count(valkey, [Hit(1)])
    drain(valkey)
    fold_all()
    assert UsageStep.objects.count() == 1


def test_two_makers_at_once_make_each_slice_once() -> None:
    other = connection.copy()
    with transaction.atomic():
        assert ensure_partitions([partition_of(UsageDay, NOW)]) == 1
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(hashtext('quotas.usage.partitions'))")
            assert cursor.fetchone() == (False,)
    other.close()
    assert ensure_partitions([partition_of(UsageDay, NOW)]) == 0


def test_rows_of_several_slices_find_their_place() -> None:
    start = int(NOW.timestamp()) // 86_400 * 86_400
    cells = [Cell(start + day * 86_400, CellSeries(1, 1, "a", 0), 1, 1) for day in range(5)]
    with transaction.atomic():
        add_cells(Cells.of(cells), NOW + timedelta(days=4))
    assert UsageMinute.objects.count() == 5


def test_batch_ids_are_forgotten_two_hours_before_the_last_of_their_shard() -> None:
    ages = {(0, 0), (0, 60), (0, 121), (1, 300), (1, 301), (1, 421)}  # shard, minutes
    DrainBatch.objects.bulk_create(
        DrainBatch(id=uuid.uuid4(), shard=shard, drained_at=NOW - timedelta(minutes=age), run_id="", rows=1)
        for shard, age in ages
    )
    assert delete_old_batch_ids() == 2
    left = DrainBatch.objects.values_list("shard", "drained_at")
    assert {(shard, (NOW - at).seconds // 60) for shard, at in left} == {(0, 0), (0, 60), (1, 300), (1, 301)}


def test_the_job_says_what_it_did() -> None:
    assert (
        maintain_usage_tables(NOW)
        == f"{3 * len(PARTITIONED)} partitions created, 0 dropped, 0 days closed, 0 hours packed, 0 batch ids deleted"
    )
