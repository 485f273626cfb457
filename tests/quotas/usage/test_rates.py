"""Seconds and histograms of rates are what a plain count of all pieces gives, however they came."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from quotas.models.usage_rates import EVERY_ENDPOINT, FoldName, FoldState, PackedSeconds, RatesDay, RatesHour
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.observations.histogram import WINDOWS, Histogram, unpack_histograms
from quotas.observations.seconds import Seconds
from quotas.usage.maintenance import close_day, close_days
from quotas.usage.rates import add_rates

pytestmark = pytest.mark.django_db

DAY = datetime(2031, 3, 4, tzinfo=UTC)
NOW = DAY + timedelta(hours=30)
START = int(DAY.timestamp())


def some_cells(seed: int, number: int = 300, span_s: int = 7_200) -> list[Cell]:
    chance = random.Random(seed)
    return [
        Cell(
            START + chance.randrange(span_s),
            CellSeries(chance.randint(1, 3), chance.randint(1, 2), chance.choice("aaadpw"), 0),
            requests := chance.randint(1, 30),
            requests * chance.choice((1, 1, 4)),
        )
        for _ in range(number)
    ]


def add(cells: Iterable[Cell], now: datetime = NOW) -> None:
    with transaction.atomic():
        add_rates(Cells.of(cells), now)


def expected(cells: Iterable[Cell], tenant: int, endpoint: int, hour: int, window: int, place: int) -> Histogram:
    """By the plain definition; place 2 is requests, 3 cost."""
    sums: Counter[int] = Counter()
    for cell in cells:
        is_demand = cell.series.tenant == tenant and cell.series.outcome in "ad"
        if is_demand and endpoint in (cell.series.endpoint, EVERY_ENDPOINT) and cell.start // 3_600 == hour // 3_600:
            sums[cell.start // window] += cell.requests if place == 2 else cell.cost
    return Histogram.of(sums.values())


def check_rows(cells: list[Cell]) -> None:
    rows = list(RatesHour.objects.all())
    assert {row.endpoint_number for row in rows} == {1, 2, EVERY_ENDPOINT}
    for row in rows:
        key = (row.tenant_number, row.endpoint_number, int(row.start.timestamp()))
        costs = row.requests if row.cost is None else row.cost
        for place, packed in ((2, row.requests), (3, costs)):
            found = dict(unpack_histograms(packed))
            for window in WINDOWS:
                assert dict(found[window].counts) == dict(expected(cells, *key, window, place).counts)
        assert row.peak_1s <= row.peak_10s <= row.peak_60s


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_rows_are_the_same_however_the_pieces_came(parts: int) -> None:
    cells = some_cells(1)
    random.Random(parts).shuffle(cells)
    for part in range(parts):
        add(cells[part::parts])
    check_rows(cells)


def test_a_piece_that_comes_after_its_day_was_closed_changes_it_as_if_it_had_come_in_time() -> None:
    cells, late = some_cells(2), some_cells(3, 40)
    add(cells)
    close_day(DAY)
    assert set(PackedSeconds.objects.values_list("start", flat=True)) == {DAY}
    add(late)
    check_rows(cells + late)
    close_day(DAY)
    check_days(cells + late)
    assert PackedSeconds.objects.count() == 6


def check_days(cells: list[Cell]) -> None:
    for row in RatesDay.objects.all():
        found = dict(unpack_histograms(row.requests))
        for window in WINDOWS:
            sums = [
                expected(cells, row.tenant_number, row.endpoint_number, START + hour * 3_600, window, 2)
                for hour in range(2)
            ]
            assert dict(found[window].counts) == dict((sums[0] + sums[1]).counts)


def test_seconds_are_kept_exactly_and_in_their_order() -> None:
    cells = some_cells(4)
    add(cells[::2])
    close_day(DAY)
    add(cells[1::2])
    rows = PackedSeconds.objects.filter(tenant_number=2)
    seconds = Seconds.summed([Seconds.unpack(row.packed) for row in rows])
    wanted: Counter[int] = Counter()
    for cell in cells:
        if cell.series.tenant == 2 and cell.series.outcome in "ad":
            wanted[cell.start] += cell.requests
    assert dict(zip(seconds.starts_s.tolist(), seconds.offered.tolist(), strict=True)) == wanted
    assert sorted(wanted) == seconds.starts_s.tolist()


def test_a_minute_that_was_counted_whole_says_nothing_of_its_seconds() -> None:
    whole = Cells.of([Cell(START, CellSeries(1, 1, "a", 0), 600, 600)])
    with transaction.atomic():
        add_rates(Cells(whole.start, whole.length * 60, *whole.columns[2:]), NOW)
    row = RatesHour.objects.get(endpoint_number=1)
    assert (row.peak_1s, row.peak_10s, row.peak_60s) == (0, 0, 600)
    assert Seconds.unpack(PackedSeconds.objects.get().packed).lengths.tolist() == [60]


def test_no_row_of_cost_where_each_request_costs_one() -> None:
    add([Cell(START, CellSeries(1, 1, "a", 0), 3, 3), Cell(START, CellSeries(1, 2, "a", 0), 3, 6)])
    found = {row.endpoint_number: (row.cost_1s, row.cost is None) for row in RatesHour.objects.all()}
    assert found == {1: (None, True), 2: (6, False), EVERY_ENDPOINT: (9, False)}


def test_days_are_closed_once_they_are_over_and_folded() -> None:
    add(some_cells(5))
    state = FoldState.objects.create(name=FoldName.RATES, until=DAY + timedelta(hours=20))
    assert close_days(NOW) == 0
    state.until = NOW
    state.save()
    assert close_days(DAY + timedelta(hours=25)) == 0
    assert close_days(NOW) == 1
    assert close_days(NOW) == 0
    assert FoldState.objects.get(name=FoldName.DAYS).until == DAY + timedelta(days=1)
    check_days(some_cells(5))
