"""What a job adds up over tenants: the last day for the matrix, the leaders of four weeks for the endpoint's page."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from dashboards.pages.tenant.state import tenant_state
from quotas.models import CalendarCounter, Endpoint, LimitName, TenantSummary
from quotas.models.usage_rates import EVERY_ENDPOINT
from quotas.models.usage_totals import TierUse
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.overrides import override_create
from quotas.policies.edit import limit_set
from quotas.policies.limit_codec import limit_parse
from quotas.tenants import NewTenant, tenants_create
from quotas.usage.backfill import backfill_usage
from quotas.usage.queries.busiest_tenants import LEADERS, busiest_tenants_read
from quotas.usage.queries.near_limits import near_limits_read, tier_usage_read
from quotas.usage.tier_usage import measure_tier_usage
from tenants.models import Tenant, Tier
from tests.quotas.world import GET, PAY, SAID, make_world

NOW = timezone.now().replace(minute=30, second=0, microsecond=0)


@pytest.fixture(autouse=True)
def world(db: None) -> None:
    make_world()
    tenants_create(tenants=[NewTenant("cabs", "pro")], **SAID)


def number_of(endpoint: str) -> int:
    return Endpoint.objects.get(name=endpoint).number


def asked(tenant: str, counts: list[int], denied: int = 0, endpoint: str = GET, minutes_ago: int = 10) -> list[Cell]:
    """So many requests in each second from then on."""
    start = int((NOW - timedelta(minutes=minutes_ago)).timestamp())
    number, where = Tenant.objects.get(name=tenant).number, number_of(endpoint)
    cells = [Cell(start + i, CellSeries(number, where, "a", 0), n, 2 * n) for i, n in enumerate(counts)]
    return [*cells, Cell(start, CellSeries(number, where, "d", 1), denied, denied)] if denied else cells


def measured(*cells: list[Cell]) -> None:
    backfill_usage(Cells.of(cell for part in cells for cell in part), NOW)
    measure_tier_usage(NOW)


def pro() -> int:
    return Tier.objects.get(name="pro").number


def test_the_busiest_of_a_tier_stand_for_it() -> None:
    measured(asked("acme", [5, 7, 1], denied=3), asked("cabs", [20]), asked("bolt", [50]))
    row = TierUse.objects.get(tier_number=pro(), endpoint_number=number_of(GET))
    assert (row.tenants, row.asked, row.denied) == (2, 36, 3)
    assert row.busiest == Tenant.objects.get(name="cabs").number
    assert (row.peaks["in_1s"], row.peaks["in_60s"], row.peaks["cost_1s"]) == (20, 20, 40)
    everywhere = TierUse.objects.get(tier_number=pro(), endpoint_number=EVERY_ENDPOINT)
    assert everywhere.asked == 36


def test_a_limit_is_compared_with_the_highest_minute() -> None:
    measured(asked("acme", [30] * 60))
    limit = limit_parse("burst", {"algorithm": "token_bucket", "rate": 40, "burst": 60})
    nearest = tier_usage_read().nearest(pro(), GET, limit)
    assert nearest is not None
    assert nearest.share == pytest.approx(30 / 40)
    assert tier_usage_read().nearest(pro(), PAY, limit) is None
    per_key = limit_parse("burst", {"algorithm": "token_bucket", "rate": 40, "subject": "key"})
    assert tier_usage_read().nearest(pro(), GET, per_key) is None


def test_whose_peak_it_was_is_said_only_of_a_limit_that_was_compared_with_each_tenant() -> None:
    measured(asked("acme", [30] * 60), asked("cabs", [10] * 60))
    limit = limit_parse("burst", {"algorithm": "token_bucket", "rate": 100, "burst": 200})
    everywhere, on_get = (tier_usage_read().nearest(pro(), scope, limit) for scope in ("*", GET))
    assert everywhere is not None
    assert everywhere.tenant == "acme"
    assert on_get is not None
    assert on_get.tenant == ""  # the tier's limit is on *, not there
    assert everywhere.share == on_get.share == pytest.approx(30 / 100)


def test_all_tenants_near_to_a_limit_are_counted_each_against_its_own() -> None:
    override_create(tenant="acme", limits={"burst": {"rate": 900, "burst": 1800}, "minute": {"rate": 90_000}}, **SAID)
    tenants_create(tenants=[NewTenant("dial", "pro")], **SAID)
    measured(asked("acme", [14] * 60), asked("cabs", [14] * 60), asked("dial", [15] * 60), asked("bolt", [1]))
    found = near_limits_read()
    assert found.tenants == 2  # cabs and dial have used 84 and 90 % of 1,000 a minute
    assert [(row.tenant, row.limit, round(row.share, 2)) for row in found.rows[:2]] == [
        ("dial", "minute", 0.9),
        ("cabs", "minute", 0.84),
    ]


def test_what_is_a_day_old_is_measured_no_more() -> None:
    measured(asked("acme", [5], minutes_ago=26 * 60))
    assert not tier_usage_read().is_measured
    measure_tier_usage(NOW)
    assert busiest_tenants_read(pro(), number_of(GET)) is None


def test_leaders_come_highest_first_with_their_minutes() -> None:
    measured(asked("acme", [30] * 60), asked("cabs", [10] * 120))
    leaders = busiest_tenants_read(pro(), number_of(GET))
    assert leaders is not None
    assert [leader.tenant for leader in leaders.leaders] == ["acme", "cabs"]
    assert (leaders.tenants, leaders.asked, leaders.is_whole) == (2, 3_000, True)
    assert leaders.leaders[0].peak == pytest.approx(30)


def test_a_limit_strikes_those_above_it_by_what_is_above() -> None:
    measured(asked("acme", [30] * 60), asked("cabs", [10] * 60))
    leaders = busiest_tenants_read(pro(), number_of(GET))
    assert leaders is not None
    assert leaders.denied_tenants(31, 1) == []
    [struck] = leaders.denied_tenants(20, 0)
    assert struck.leader.tenant == "acme"
    assert struck.share == pytest.approx(1 / 3, abs=0.02)
    assert leaders.denied_tenants(20, 10_000) == []
    assert {one.leader.tenant for one in leaders.denied_tenants(5, 0)} == {"acme", "cabs"}


def test_no_more_leaders_are_kept_than_a_page_shows() -> None:
    tenants_create(tenants=[NewTenant(f"fleet-{n}", "pro") for n in range(LEADERS + 5)], **SAID)
    measured(*(asked(f"fleet-{n}", [n + 1]) for n in range(LEADERS + 5)))
    leaders = busiest_tenants_read(pro(), number_of(GET))
    assert leaders is not None
    assert (len(leaders.leaders), leaders.tenants) == (LEADERS, LEADERS + 5)
    assert leaders.lowest == pytest.approx(6 / 60)


def test_leaders_are_gathered_less_often() -> None:
    measured(asked("acme", [30] * 60))
    backfill_usage(Cells.of(asked("cabs", [90] * 60)), NOW)
    measure_tier_usage(NOW + timedelta(minutes=1))
    first = busiest_tenants_read(pro(), number_of(GET))
    measure_tier_usage(NOW + timedelta(minutes=11))
    second = busiest_tenants_read(pro(), number_of(GET))
    assert first is not None
    assert second is not None
    assert [len(first.leaders), len(second.leaders)] == [1, 2]


def test_the_summary_of_a_tenant_names_the_limit_it_came_closest_to() -> None:
    measured(asked("acme", [30] * 60), asked("bolt", [1]))
    acme, cabs = (TenantSummary.objects.get(tenant__name=name) for name in ("acme", "cabs"))
    assert acme.tightest is not None
    nearest = next(row for row in near_limits_read().rows if row.tenant == "acme")
    assert (acme.use, acme.use_scope, acme.use_limit) == (nearest.share, nearest.scope, nearest.limit)
    assert cabs.tightest is None
    measure_tier_usage(NOW + timedelta(days=2))
    acme.refresh_from_db()
    assert acme.tightest is None


def test_the_peak_of_a_daily_quota_may_lie_in_the_day_that_is_over() -> None:
    """Whoever used up yesterday's quota came close to it in the last 24 hours, whatever it used since."""
    daily = {"name": "daily", "algorithm": "calendar_quota", "limit": 1_000, "period": "day"}
    limit_set(policy="pro-all", limit=daily, force=True, **SAID)
    midnight = NOW.replace(hour=0)
    ago = int((NOW - midnight).total_seconds() // 60) + 60  # an hour before midnight, in UTC as the tenants are
    CalendarCounter.objects.create(
        shard=1,
        tenant_number=Tenant.objects.get(name="acme").number,
        scope="",
        subject=b"",
        limit_number=LimitName.objects.get(name="daily").number,
        generation=1,
        period_start=midnight,
        used=150,
        expires_at=NOW + timedelta(days=1),
        drained_at=NOW,
    )
    measured(asked("acme", [900], minutes_ago=ago), asked("acme", [150], minutes_ago=1))
    uses = {row.limit: row.share for row in near_limits_read().rows if row.tenant == "acme"}
    assert uses["daily"] == pytest.approx(0.9)
    held = limit_parse("daily", {name: value for name, value in daily.items() if name != "name"})
    nearest = tier_usage_read().nearest(pro(), "*", held)
    assert nearest is not None
    assert nearest.share == pytest.approx(0.9)
    lines = tenant_state(Tenant.objects.get(name="acme"), NOW).lines
    assert {line.limit.name: line.use.share for line in lines}["daily"] == pytest.approx(0.9)
