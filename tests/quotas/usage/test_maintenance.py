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
from quotas.observations.cells import Cell, Cells, Series
from quotas.usage import partitions
from quotas.usage.drain import drain
from quotas.usage.fold import fold_all
from quotas.usage.maintenance import forget_batches, keep_up
from quotas.usage.partitions import Slice, drop_old, ensure, make_ahead, slice_of
from quotas.usage.rollups import add_cells
from tests.quotas.usage.counters import Hit, count

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime(2031, 3, 5, 14, 30, tzinfo=UTC)


def starts(model: type[Partitioned]) -> list[datetime]:
    return sorted(part.start for part in partitions.existing(model) if part.start.year >= NOW.year - 1)


@pytest.fixture(autouse=True)
def _no_slices_left() -> None:
    drop_old(datetime(2200, 1, 1, tzinfo=UTC))


def test_slices_begin_at_whole_multiples_of_their_length() -> None:
    assert slice_of(PackedStep, NOW) == Slice(PackedStep, datetime(2031, 3, 5, 12, tzinfo=UTC))
    assert slice_of(PackedMinute, NOW).name == "quotas_packed_1m_20310305t00"
    for model in PARTITIONED:
        part = slice_of(model, NOW)
        assert part.start <= NOW < part.end


def test_the_job_makes_the_present_slice_and_two_ahead() -> None:
    assert make_ahead(NOW) == 3 * len(PARTITIONED)
    assert starts(PackedMinute) == [datetime(2031, 3, day, tzinfo=UTC) for day in (5, 6, 7)]
    assert make_ahead(NOW) == 0


def test_the_job_drops_what_is_no_longer_kept_and_nothing_else() -> None:
    make_ahead(NOW - timedelta(days=3))
    make_ahead(NOW)
    with override_settings(HEADROOM_KEEP_DAYS={model.keep: 2 for model in PARTITIONED}):
        drop_old(NOW)
    assert starts(PackedMinute)[0] == datetime(2031, 3, 3, tzinfo=UTC)
    assert starts(PackedStep)[0] == datetime(2031, 3, 5, 12, tzinfo=UTC)
    assert slice_of(UsageDay, NOW).start in starts(UsageDay)


def test_a_slice_in_use_is_dropped_another_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "LOCK_TIMEOUT", "50ms")
    make_ahead(NOW)
    reader = connection.copy()
    with transaction.atomic(), reader.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT * FROM quotas_usage_1m")
        later = NOW + timedelta(days=40)
        dropped = drop_old(later)
        cursor.execute("COMMIT")
    reader.close()
    assert starts(PackedMinute)
    assert drop_old(later) > 0
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
        assert ensure([slice_of(UsageDay, NOW)]) == 1
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(hashtext('quotas.usage.partitions'))")
            assert cursor.fetchone() == (False,)
    other.close()
    assert ensure([slice_of(UsageDay, NOW)]) == 0


def test_rows_of_several_slices_find_their_place() -> None:
    start = int(NOW.timestamp()) // 86_400 * 86_400
    cells = [Cell(start + day * 86_400, Series(1, 1, "a", 0), 1, 1) for day in range(5)]
    with transaction.atomic():
        add_cells(Cells.of(cells), NOW + timedelta(days=4))
    assert UsageMinute.objects.count() == 5


def test_batch_ids_are_forgotten_two_hours_before_the_last_of_their_shard() -> None:
    ages = {(0, 0), (0, 60), (0, 121), (1, 300), (1, 301), (1, 421)}  # shard, minutes
    DrainBatch.objects.bulk_create(
        DrainBatch(id=uuid.uuid4(), shard=shard, drained_at=NOW - timedelta(minutes=age), run_id="", rows=1)
        for shard, age in ages
    )
    assert forget_batches() == 2
    left = DrainBatch.objects.values_list("shard", "drained_at")
    assert {(shard, (NOW - at).seconds // 60) for shard, at in left} == {(0, 0), (0, 60), (1, 300), (1, 301)}


def test_the_job_says_what_it_did() -> None:
    assert (
        keep_up(NOW)
        == f"{3 * len(PARTITIONED)} slices made, 0 dropped, 0 days closed, 0 hours packed, 0 batch ids forgotten"
    )
