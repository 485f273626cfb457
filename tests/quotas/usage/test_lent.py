"""What a pool lent is let through: every sum counts it as it counts what was simply allowed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from quotas.models import Endpoint, LimitName, TenantSummary
from quotas.models.usage import DrainState, Outcome
from quotas.models.usage_totals import TierUse
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.status.metrics_collector import checks
from quotas.tenant_summary import measure_tenants
from quotas.usage.backfill import backfill_usage
from quotas.usage.queries.daily_demand import busiest_days
from quotas.usage.queries.denial_causes import throttled_read
from quotas.usage.queries.grouped_usage import UsageQuery, usage_query
from quotas.usage.queries.periods import period_read
from quotas.usage.queries.traffic import traffic_read
from quotas.usage.rollups import add_tally
from quotas.usage.tier_usage import measure_tier_usage
from tenants.models import Tenant
from tests.quotas.world import GET, make_world

NOW = timezone.now().replace(minute=30, second=0, microsecond=0)
BEGIN = NOW - timedelta(hours=1)


@pytest.fixture(autouse=True)
def world(db: None) -> None:
    make_world()


def counted(outcome: Outcome) -> dict[str, Any]:
    """What every sum says of 30 requests with this outcome and 10 that were denied."""
    tenant, endpoint = Tenant.objects.get(name="acme").number, Endpoint.objects.get(name=GET).number
    limit = LimitName.objects.get(name="burst").number
    start = int((NOW - timedelta(minutes=10)).timestamp())
    lender = limit if outcome == Outcome.LENT else 0
    cells = [
        Cell(start, CellSeries(tenant, endpoint, outcome, lender), 30, 60),
        Cell(start, CellSeries(tenant, endpoint, Outcome.DENIED, limit), 10, 20),
    ]
    backfill_usage(Cells.of(cells), NOW)
    DrainState.objects.update_or_create(defaults={"drained_at": NOW, "run_id": "x"})
    measure_tier_usage(NOW)
    measure_tenants(NOW)
    period = period_read("1h", "", "", NOW)
    (row,) = usage_query(UsageQuery(BEGIN, NOW), NOW).rows
    use = TierUse.objects.get(endpoint_number=endpoint)
    summary = TenantSummary.objects.get(tenant__name="acme")
    traffic, (throttled,) = traffic_read(period), throttled_read(period)
    midnight = datetime(NOW.year, NOW.month, NOW.day, tzinfo=UTC) - timedelta(days=1)
    return {
        "usage": (row.allowed, row.denied, row.allowed_cost),
        "tier": (use.asked, use.denied, use.peaks["in_1s"], use.peaks["cost_60s"]),
        "tenant": (summary.asked, summary.denied),
        "traffic": (traffic.asked, traffic.denied),
        "throttled": (throttled.denied, throttled.asked),
        "days": busiest_days([tenant], endpoint, "cost", since=midnight, above=0),
    }


def test_what_was_lent_counts_in_every_sum_as_what_was_allowed() -> None:
    assert counted(Outcome.LENT) == {
        "usage": (30, 10, 60),
        "tier": (40, 10, 40, 80),
        "tenant": (40, 10),
        "traffic": (40, 10),
        "throttled": (10, 40),
        "days": {Tenant.objects.get(name="acme").number: 80},
    }


def test_what_was_allowed_counts_the_same() -> None:
    assert counted(Outcome.ALLOWED)["usage"] == (30, 10, 60)


def test_the_lender_can_be_asked_for() -> None:
    counted(Outcome.LENT)
    rows = usage_query(UsageQuery(BEGIN, NOW, group=("limit", "outcome")), NOW).rows
    found = {(row.group["limit"], row.group["outcome"]): row.allowed for row in rows}
    assert found["burst", "lent"] == 30


def test_it_has_an_outcome_of_its_own_among_the_metrics() -> None:
    endpoint, limit = Endpoint.objects.get(name=GET).number, LimitName.objects.get(name="burst").number
    with transaction.atomic():
        add_tally(Cells.of([Cell(0, CellSeries(1, endpoint, Outcome.LENT, limit), 30, 60)]))
    assert [(sample.labels, sample.value) for sample in checks().samples] == [
        ({"endpoint": GET, "outcome": "lent"}, 30)
    ]
