"""The finest rollups read the same whether their hour is fresh or packed, and whatever comes late."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from quotas.models.packed_usage import FRESH, PACKED
from quotas.models.usage import Rollup, UsageMinute, UsageStep
from quotas.models.usage_rates import FoldName, FoldState
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.usage.packed_hours import LATE, fresh_since, pack_finished_hours
from quotas.usage.rollups import add_cells

pytestmark = pytest.mark.django_db

NOW = datetime(2031, 3, 5, 14, 30, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
COLUMNS = ("start", "tenant_number", "endpoint_number", "outcome", "limit_number", "count", "cost")
ROWS = [
    (0, CellSeries(1, 1, "a", 0), 3, 3),
    (10, CellSeries(1, 1, "a", 0), 1, 5),  # another cost than its count
    (11, CellSeries(1, 2, "d", 7), 2, 2),
    (125, CellSeries(2, 1, "a", 0), 1 << 30, 1 << 40),  # more than an entry has bits for
    (126, CellSeries(2, 1, "a", 0), (1 << 22) - 1, (1 << 22) - 1),
    (3_599, CellSeries(2, 1, "a", 0), 4, 4),
]


@pytest.fixture(autouse=True)
def no_older_partitions(db: None) -> None:
    """Tests that commit leave their partitions behind, empty; they would be counted as packed."""
    pack_finished_hours(NOW - timedelta(days=1))


def cells(begin: datetime, rows: list[tuple[int, CellSeries, int, int]] = ROWS) -> Cells:
    first = int(begin.timestamp())
    return Cells.of([Cell(first + second, series, count, cost) for second, series, count, cost in rows])


def read(model: type[Rollup]) -> dict[tuple[object, ...], tuple[int, int]]:
    """Sums, because a step that was packed in two pieces is two rows."""
    found: dict[tuple[object, ...], tuple[int, int]] = {}
    for *key, count, cost in model._default_manager.values_list(*COLUMNS):
        before = found.get(tuple(key), (0, 0))
        found[tuple(key)] = before[0] + count, before[1] + cost
    return found


def add(begin: datetime, now: datetime = NOW) -> None:
    with transaction.atomic():
        add_cells(cells(begin), now)


@pytest.mark.parametrize("model", [UsageStep, UsageMinute])
def test_what_is_packed_reads_as_it_did_when_it_was_fresh(model: type[Rollup]) -> None:
    hour = NOW.replace(minute=0)
    add(hour)
    before = read(model)
    assert (FRESH[model]._default_manager.count(), PACKED[model]._default_manager.count()) == (len(before), 0)
    assert sum(count for count, _ in before.values()) == sum(row[2] for row in ROWS)
    assert pack_finished_hours(hour + timedelta(hours=1) + LATE - timedelta(seconds=1)) == 0
    assert pack_finished_hours(hour + timedelta(hours=1) + LATE) == 2
    assert (FRESH[model]._default_manager.count(), PACKED[model]._default_manager.count()) == (0, 3)
    assert read(model) == before


@pytest.mark.parametrize("model", [UsageStep, UsageMinute])
def test_a_piece_that_comes_late_is_added_to_what_is_packed(model: type[Rollup]) -> None:
    hour = NOW.replace(minute=0) - timedelta(hours=5)
    add(hour)
    once = read(model)
    add(hour)
    assert FRESH[model]._default_manager.count() == 0
    assert read(model) == {key: (2 * count, 2 * cost) for key, (count, cost) in once.items()}


def test_an_hour_that_no_fold_has_read_to_its_end_is_not_packed() -> None:
    add(NOW.replace(minute=0))
    FoldState.objects.create(name=FoldName.STEPS, until=NOW)
    assert pack_finished_hours(NOW + timedelta(days=1)) == 1  # the minutes alone
    assert FRESH[UsageStep]._default_manager.exists()


def test_a_condition_on_the_start_finds_fresh_and_packed_rows() -> None:
    hour = NOW.replace(minute=0)
    add(hour - timedelta(hours=6))
    add(hour)
    whole = UsageMinute.objects.filter(start__gte=hour - timedelta(hours=6), start__lt=hour + timedelta(hours=1))
    assert len({row.start for row in whole}) == 6
    assert {row.start for row in UsageMinute.objects.filter(start__gte=hour)} == {
        hour + timedelta(minutes=minute) for minute in (0, 2, 59)
    }
    wanted = [hour - timedelta(hours=6) + timedelta(minutes=minute) for minute in (1, 2)]
    assert {row.start for row in UsageMinute.objects.filter(start__in=wanted)} == {wanted[1]}


def test_what_is_fresh_is_never_older_than_two_hours_and_a_little() -> None:
    assert NOW - fresh_since(NOW) < timedelta(hours=2) + LATE
