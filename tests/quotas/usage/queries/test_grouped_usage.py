"""Any span and grouping: the sums are those of a plain count, whatever rollups they come from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from quotas.models import Endpoint, LimitName
from quotas.models.usage import BEGINNING, DrainState, GapRecord
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.usage.queries.grouped_usage import UsageQuery, UsageResult, usage_query
from quotas.usage.rollups import add_cells
from tenants.models import Tenant, Tier

pytestmark = pytest.mark.django_db

NOW = datetime(2031, 3, 6, 5, 30, tzinfo=UTC)
BEGIN = NOW - timedelta(days=5)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def _world() -> None:
    """acme (free) and bolt (pro) ask once every 7 minutes for five days; every third is denied by `burst`."""
    for number, name in enumerate(("free", "pro"), 1):
        tier = Tier.objects.create(name=name)
        Tenant.objects.create(number=number, name=("acme", "bolt")[number - 1], tier=tier)
    Endpoint.objects.create(number=1, name="rides:get", method="GET", path="/rides")
    LimitName.objects.create(number=9, name="burst")
    with transaction.atomic():
        add_cells(Cells.of(cells()), NOW)
    DrainState.objects.create(drained_at=NOW, run_id="x")


def cells() -> list[Cell]:
    found, at, place = [], BEGIN, 0
    while at < NOW:
        outcome = ("d", 9) if place % 3 == 0 else ("a", 0)
        found.append(Cell(int(at.timestamp()), CellSeries(1 + place % 2, 1, *outcome), 2, 6))
        at, place = at + 7 * MINUTE, place + 1
    return found


def ask(begin: datetime = BEGIN, end: datetime = NOW, **rest: object) -> UsageResult:
    return usage_query(UsageQuery(begin, end, **rest), NOW)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("begin", "end"),
    [(BEGIN, NOW), (BEGIN + 3 * HOUR, NOW - 40 * MINUTE), (NOW - DAY, NOW), (NOW - 3 * HOUR, NOW), (NOW - HOUR, NOW)],
)
def test_the_sum_of_any_span_is_exact_to_its_edges(begin: datetime, end: datetime) -> None:
    answer = ask(begin, end)
    within = [c for c in cells() if answer.begin.timestamp() <= c.start < answer.end.timestamp()]
    (row,) = answer.rows
    assert row.allowed == sum(c.requests for c in within if c.series.outcome == "a")
    assert row.denied_cost == sum(c.cost for c in within if c.series.outcome == "d")
    assert begin - answer.begin < HOUR
    assert answer.end - end < HOUR


def test_a_long_span_is_read_from_days_and_its_ends_from_hours() -> None:
    assert ask().rollups == ("quotas_usage_1h", "quotas_usage_1d")
    assert ask(NOW - HOUR).rollups == ("quotas_usage_1m",)
    assert ask(step=DAY).rollups == ("quotas_usage_1d",)
    assert ask(step=timedelta(hours=6)).rollups == ("quotas_usage_1h",)


@pytest.mark.parametrize("group", ["tenant", "tier", "endpoint", "outcome", "limit"])
def test_groups_add_up_to_the_whole(group: str) -> None:
    whole, parts = ask().rows[0], ask(group=(group,)).rows
    assert sum(row.allowed for row in parts) == whole.allowed
    assert sum(row.denied for row in parts) == whole.denied
    names = {"tenant": {"acme", "bolt"}, "tier": {"free", "pro"}, "endpoint": {"rides:get"}}
    names |= {"outcome": {"allowed", "denied"}, "limit": {"", "burst"}}
    assert {row.group[group] for row in parts} == names[group]


def test_steps_and_groups_together_come_by_time() -> None:
    rows = ask(step=DAY, group=("tenant",)).rows
    starts = [row.start for row in rows]
    assert starts == sorted(starts, key=lambda start: start or BEGINNING)
    assert len({(row.start, row.group["tenant"]) for row in rows}) == len(rows) == 12


def test_only_what_is_asked_for_is_counted() -> None:
    assert ask(tenants=["acme"]).rows[0].count + ask(tenants=["bolt"]).rows[0].count == ask().rows[0].count
    assert ask(tiers=["pro"], group=("tenant",)).rows[0].group == {"tenant": "bolt"}
    assert ask(limits=["burst"]).rows[0].allowed == 0
    assert ask(outcomes=["allowed"]).rows[0].denied == 0
    assert ask(endpoints=["nothing:here"]).rows == []


def test_more_rows_than_wanted_are_said_to_be_there() -> None:
    answer = ask(step=HOUR, group=("tenant",), most=10)
    assert (len(answer.rows), answer.is_whole) == (10, False)
    assert ask(step=DAY).is_whole


def test_gaps_and_what_is_no_longer_kept_are_no_zeros() -> None:
    GapRecord.objects.create(start=BEGIN, end=BEGIN + HOUR, reason="test")
    answer = ask(step=timedelta(seconds=10), most=1)
    assert len(answer.gaps) == 1
    assert answer.measured.since == NOW - 2 * DAY
    assert answer.measured.until == NOW
