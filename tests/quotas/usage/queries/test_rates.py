"""Peaks, percentiles, heat maps and series of rates, over spans that begin and end anywhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from quotas.models.usage import BEGINNING, DrainState, GapRecord
from quotas.models.usage_rates import EVERY_ENDPOINT, FoldName, FoldState
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.usage.backfill import backfill_usage, note_history
from quotas.usage.maintenance import close_days
from quotas.usage.queries.rates import peaks_read, rate_series, rates_read
from quotas.usage.queries.seconds import counts_of, heat_map, seconds_iter, seconds_read

pytestmark = pytest.mark.django_db

MONDAY = datetime(2031, 3, 3, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOW = MONDAY + 3 * DAY + 5 * HOUR


def asked(at: datetime, requests: int, *, tenant: int = 1, endpoint: int = 1, outcome: str = "a") -> Cell:
    return Cell(int(at.timestamp()), CellSeries(tenant, endpoint, outcome, 0), requests, requests)


@pytest.fixture(autouse=True)
def _history() -> None:
    """Each hour of three days: 10 × (day + 1) in one second, and a minute of 2 a second; tenant 2 asks once."""
    GapRecord.objects.create(start=BEGINNING, end=NOW, reason="Nothing was measured before.")
    DrainState.objects.create(drained_at=NOW, run_id="x")
    cells = [asked(MONDAY + 7 * HOUR, 4, tenant=2, endpoint=2, outcome="d")]
    start = MONDAY
    while start < NOW:
        cells.append(asked(start, 10 * ((start - MONDAY) // DAY + 1)))
        cells += [asked(start + timedelta(seconds=60 + i), 2) for i in range(60)]
        start += HOUR
    backfill_usage(Cells.of(cells), NOW)
    note_history(MONDAY)
    FoldState.objects.create(name=FoldName.RATES, until=NOW)
    close_days(NOW)


def test_the_days_before_today_are_closed() -> None:
    assert FoldState.objects.get(name=FoldName.DAYS).until == MONDAY + 3 * DAY


@pytest.mark.parametrize(
    ("begin", "end", "most"),
    [(0, 24, 10), (0, 48, 20), (3, 30, 20), (30, 77, 40), (50, 60, 30), (71, 72, 30), (72, 77, 40)],
)
def test_the_peak_of_any_span_is_found(begin: int, end: int, most: int) -> None:
    found = {p.endpoint: p for p in peaks_read(MONDAY + begin * HOUR, MONDAY + end * HOUR, tenants=[1])}
    for endpoint in (1, EVERY_ENDPOINT):
        assert found[endpoint].requests == {1: most, 10: max(20, most), 60: 120}
        assert found[endpoint].cost == found[endpoint].requests
    total = sum(10 * (hour // 24 + 1) + 120 for hour in range(begin, end))
    assert (found[1].allowed, found[1].denied) == (total, 0)


def test_peaks_are_of_whom_and_where_one_asks() -> None:
    week = (MONDAY, MONDAY + 7 * DAY)
    assert [(p.tenant, p.endpoint) for p in peaks_read(*week, endpoints=[1, 2])] == [(1, 1), (2, 2)]
    assert [(p.tenant, p.denied_share) for p in peaks_read(*week, tenants=[2], endpoints=[2])] == [(2, 1.0)]
    assert [p.tenant for p in peaks_read(*week, endpoints=[EVERY_ENDPOINT], most=1)] == [1]
    assert peaks_read(MONDAY - DAY, MONDAY) == []


def test_percentiles_of_a_span_are_a_sum_of_its_rows() -> None:
    found = rates_read(MONDAY + 5 * HOUR, NOW, tenants=[1], endpoints=[1])[1, 1]
    assert found.quantile(1, 0.5) == 2
    assert found.peak(1) == found.quantile(1, 1.0) == 40
    assert found.histograms[60].total == 2 * 72
    assert found.load_quantile(60, 0.5) == 120


def test_reading_many_tenants_takes_as_many_queries_as_one(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    for tenants in ([1], list(range(1, 500))):
        with django_assert_num_queries(3):
            peaks_read(MONDAY + HOUR, NOW, tenants=tenants)
        with django_assert_num_queries(3):
            rates_read(MONDAY + HOUR, NOW, tenants=tenants)


def test_seconds_of_many_tenants_come_one_tenant_after_the_other() -> None:
    found = dict(seconds_iter(MONDAY, NOW, endpoint=EVERY_ENDPOINT))
    assert list(found) == [1, 2]
    assert found[1].starts_s.tolist() == seconds_read(1, 1, MONDAY, NOW).starts_s.tolist()
    allowed, denied = counts_of(found[2])
    assert (len(allowed), denied.units.tolist()) == (0, [4.0])
    assert [tenant for tenant, _ in seconds_iter(MONDAY, NOW, endpoint=1)] == [1]


def test_a_heat_map_has_means_where_something_was_measured() -> None:
    found = heat_map(1, MONDAY, NOW)
    assert found.asked[0][3] == 130.0
    assert found.asked[2][3] == 150.0
    assert found.asked[4][3] is None
    assert heat_map(2, MONDAY, NOW).denied[0][7] == 4.0
    assert heat_map(2, MONDAY, NOW).asked[0][8] == 0.0


def test_a_heat_map_follows_the_tenants_clock() -> None:
    found = heat_map(2, MONDAY, NOW, zone="America/New_York")
    assert found.denied[0][2] == 4.0


@pytest.mark.parametrize(("step", "peaks"), [(HOUR, [20, 20, 20, 20]), (timedelta(minutes=30), [20, 0] * 4)])
def test_a_series_has_the_peak_of_each_step(step: timedelta, peaks: list[int]) -> None:
    begin = MONDAY + 26 * HOUR
    points = rate_series(1, 1, begin, begin + 4 * HOUR, step)
    assert [point.peak_1s for point in points] == peaks
    assert sum(point.allowed for point in points) == 4 * 140
    assert {point.seconds for point in points} == {step.total_seconds()}


def test_what_was_not_measured_is_unknown_in_a_series() -> None:
    begin = MONDAY + 26 * HOUR + timedelta(minutes=30)
    GapRecord.objects.create(start=begin, end=begin + timedelta(minutes=20), reason="test")
    points = rate_series(1, 1, begin, begin + 2 * HOUR, timedelta(minutes=10))
    assert [point.seconds for point in points[:4]] == [0.0, 0.0, 600.0, 600.0]
    assert [point.seconds for point in rate_series(1, 1, MONDAY - 2 * HOUR, MONDAY + HOUR, HOUR)] == [0, 0, 3600]


def test_too_many_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="longer"):
        rate_series(1, 1, MONDAY, NOW, timedelta(seconds=10))
