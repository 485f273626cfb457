"""Calendars in the tenant's own time zone."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from quotas.policies.configuration_index import Touched
from quotas.policies.spec import Tenant
from tests.quotas.policies.worlds import DAY_US, NOW_US, compiled, entry, limit, plan, row, shard, tier_policy, world

MONTHLY = limit("daily", "calendar_quota", limit=1_000, period="month")
KOLKATA = Tenant(2, "bob", "pro", timezone="Asia/Kolkata")


def starts(compiler_plan: dict[str, object], config: dict[str, str]) -> list[int]:
    found: list[int] = json.loads(config[f"k:{row(compiler_plan, 'daily')['K']}"])
    return found


def test_only_tenants_outside_utc_get_a_variant_of_their_tier() -> None:
    compiler = compiled(world(tier_policy("*", MONTHLY), tenants=[KOLKATA]))
    assert entry(compiler, "bob") == "00002t2@Asia/Kolkata"
    assert entry(compiler, "acme") == "00001t2"


def test_tier_without_calendars_needs_no_variants() -> None:
    compiler = compiled(world(tier_policy("*", limit("burst")), tenants=[KOLKATA]))
    assert entry(compiler, "bob") == "00002t2"
    assert json.loads(shard(compiler).config["main"])["tiers"].keys() == {"t1", "t2"}


def test_periods_begin_at_midnight_where_the_tenant_is() -> None:
    compiler = compiled(world(tier_policy("*", MONTHLY), tenants=[KOLKATA]))
    found = starts(plan(compiler, "bob"), shard(compiler, "bob").config)
    local = [datetime.fromtimestamp(second, ZoneInfo("Asia/Kolkata")) for second in found]
    assert all((moment.day, moment.hour, moment.minute) == (1, 0, 0) for moment in local)


def test_calendar_reaches_from_the_period_before_to_24_months_ahead() -> None:
    compiler = compiled(world(tier_policy("*", MONTHLY)))
    found = starts(plan(compiler), shard(compiler).config)
    assert datetime.fromtimestamp(found[0], UTC) == datetime(2026, 12, 1, tzinfo=UTC)
    assert datetime.fromtimestamp(found[-1], UTC) >= datetime(2029, 1, 31, tzinfo=UTC)


def test_nothing_changes_within_a_month() -> None:
    configuration = world(tier_policy("*", MONTHLY), tenants=[KOLKATA])
    tokens = [image.token for image in compiled(configuration, NOW_US).image.shards]
    assert [image.token for image in compiled(configuration, NOW_US + 16 * DAY_US).image.shards] == tokens
    assert [image.token for image in compiled(configuration, NOW_US + 17 * DAY_US).image.shards] != tokens


def test_counts_survive_when_the_calendar_is_extended() -> None:
    configuration = world(tier_policy("*", MONTHLY))
    this_month = row(plan(compiled(configuration, NOW_US)), "daily")
    next_month = row(plan(compiled(configuration, NOW_US + 30 * DAY_US)), "daily")
    assert this_month["K"] != next_month["K"]
    assert this_month["h"] == next_month["h"]


def test_variant_comes_with_the_first_tenant_of_a_zone_and_goes_with_the_last() -> None:
    compiler = compiled(world(tier_policy("*", MONTHLY)))
    before = [image.digest for image in compiler.image.shards]
    compiler.update(world(tier_policy("*", MONTHLY), tenants=[KOLKATA], revision=2), Touched(frozenset({"bob"})))
    assert "t2@Asia/Kolkata" in json.loads(shard(compiler).config["main"])["tiers"]
    compiler.update(world(tier_policy("*", MONTHLY), revision=3), Touched(frozenset({"bob"})))
    assert [image.digest for image in compiler.image.shards] == before


def test_tier_that_gets_its_first_calendar_moves_its_tenants_to_their_zones() -> None:
    compiler = compiled(world(tier_policy("*", limit("burst")), tenants=[KOLKATA]))
    after = world(tier_policy("*", limit("burst"), MONTHLY), tenants=[KOLKATA], revision=2)
    compiler.update(after, Touched(tiers=frozenset({"pro"})))
    assert entry(compiler, "bob") == "00002t2@Asia/Kolkata"
    compiler.update(world(tier_policy("*", limit("burst")), tenants=[KOLKATA]), Touched(tiers=frozenset({"pro"})))
    assert entry(compiler, "bob") == "00002t2"
