"""Reading usage: the right rollup, nothing counted that was not a request, gaps known as gaps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction
from pytest_django import DjangoAssertNumQueries

from quotas.models.usage import BEGINNING, DrainState, GapRecord
from quotas.observations.cells import Cell, Cells, Series
from quotas.selectors.usage import SPANS, Counts, Usage, usage_read
from quotas.usage.rollups import add_cells
from tenants.models import Tenant, Tier

pytestmark = pytest.mark.django_db

NOW = datetime(2030, 5, 7, 12, 34, 56, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def counted(tenant: int, outcome: str, requests: int, at: datetime = NOW) -> Cell:
    second = int(at.timestamp())
    return Cell(second - second % 10, Series(tenant, 1, outcome, 0), requests, requests)


def drained(*cells: Cell, at: datetime = NOW) -> None:
    with transaction.atomic():
        add_cells(Cells.of(cells), NOW)
    DrainState.objects.create(drained_at=at, run_id="x")


def read(span: str = "15m") -> Usage:
    return usage_read(SPANS[span], NOW)


def test_requests_are_summed_by_outcome() -> None:
    drained(*(counted(1, letter, 2**i) for i, letter in enumerate("abgdzpocuwny")))
    assert read().total == Counts(allowed=1 + 2 + 4, denied=8 + 16 + 32 + 64 + 128 + 256)


@pytest.mark.parametrize("span", SPANS)
def test_every_span_finds_the_same_sum(span: str) -> None:
    drained(counted(1, "a", 5), counted(1, "d", 3, NOW - 14 * MINUTE))
    usage = read(span)
    assert usage.total == Counts(5, 3)
    assert len(usage.points) == len(usage.tenants[0].series) == usage.span.steps
    assert sum(point.counts.denied for point in usage.points) == 3
    assert usage.begin <= NOW < usage.end


def test_what_lies_before_the_span_is_not_in_it() -> None:
    drained(counted(1, "a", 5), counted(1, "a", 7, NOW - 16 * MINUTE))
    assert read("15m").total == Counts(5, 0)
    assert read("1h").total == Counts(12, 0)


def test_the_most_denied_come_first_and_the_rest_is_summed() -> None:
    drained(counted(1, "a", 50), counted(2, "a", 90), counted(3, "d", 1), counted(4, "a", 70))
    usage = usage_read(SPANS["15m"], NOW, most_tenants=2)
    assert [tenant.number for tenant in usage.tenants] == [3, 2]
    assert usage.others == Counts(120, 0)
    assert (usage.other_tenants, usage.active_tenants, usage.denied_tenants) == (2, 4, 1)


def test_tenants_have_their_names_even_when_nobody_knows_them() -> None:
    acme = Tenant.objects.create(name="acme", tier=Tier.objects.create(name="free"))
    drained(counted(acme.number, "d", 3), counted(0, "u", 2), counted(acme.number + 5, "d", 1))
    assert (read().active_tenants, read().denied_tenants) == (2, 2)
    names = [(tenant.name, tenant.tier) for tenant in read().tenants]
    assert names == [("acme", "free"), ("unknown tenants", ""), (f"removed tenant {acme.number + 5}", "")]


def test_the_present_step_is_measured_up_to_the_last_drain() -> None:
    drained(counted(1, "a", 4), at=NOW - timedelta(seconds=2))
    assert [point.seconds for point in read().points[-2:]] == [10.0, 4.0]


def test_what_is_not_drained_yet_is_unknown_and_not_zero() -> None:
    drained(at=NOW - 5 * MINUTE)
    seconds = [point.seconds for point in read().points]
    assert seconds[-30:] == [0.0] * 30
    assert seconds[0] == 10.0


def gap(begin: datetime, seconds: float) -> None:
    GapRecord.objects.create(start=begin, end=begin + timedelta(seconds=seconds), reason="test")


def test_a_step_wholly_in_a_gap_is_unknown() -> None:
    drained()
    start = read().begin
    gap(start + timedelta(seconds=5), 20)
    usage = read()
    assert [point.seconds for point in usage.points[:4]] == [10.0, 0.0, 10.0, 10.0]
    assert len(usage.gaps) == 1


def test_what_survived_in_a_gap_is_shown() -> None:
    start = read().begin
    drained(counted(1, "a", 5, start))
    gap(start - MINUTE, 120)
    assert [(point.seconds, point.counts.allowed) for point in read().points[:2]] == [(10.0, 5), (0.0, 0)]


def test_the_first_step_is_measured_from_the_first_measurement_on() -> None:
    start = read().begin
    drained(counted(1, "a", 5, start + timedelta(seconds=10)))
    GapRecord.objects.create(start=BEGINNING, end=start + timedelta(seconds=17), reason="test")
    assert [point.seconds for point in read().points[:3]] == [0.0, 3.0, 10.0]


def test_nothing_was_ever_drained() -> None:
    usage = read()
    assert usage.drained_at is None
    assert usage.measured_seconds == 0
    assert usage.total.denied_share == usage.total.allowed_share == 0


def test_a_reading_takes_the_same_queries_however_many_tenants(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    drained(*(counted(tenant, "a", 1) for tenant in range(1, 80)))
    with django_assert_num_queries(7):
        read()
