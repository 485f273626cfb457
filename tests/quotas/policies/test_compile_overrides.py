"""The start and the end of an override are compiled in, for Lua's clock to judge."""

from __future__ import annotations

from quotas.policies.spec import Override
from tests.quotas.policies.worlds import (
    DAY_US,
    NOW_US,
    compiled,
    entry,
    limit,
    plan,
    row,
    shard,
    tenant_policy,
    tier_policy,
    timeline,
    world,
)

HOUR_US = 3_600_000_000
BASE = tier_policy("*", limit("burst", rate=10, burst=20))


def doubled(start_us: int, end_us: int | None, number: int = 1) -> Override:
    return Override(number, "acme", "*", start_us, end_us, multiplier=(2, 1))


def test_override_starts_and_ends_by_itself() -> None:
    compiler = compiled(world(BASE, overrides=[doubled(NOW_US, NOW_US + HOUR_US)]))
    assert [at for at, _ in timeline(compiler)] == [0, NOW_US, NOW_US + HOUR_US]
    capacities = [row(plan(compiler, segment=segment), "burst")["n"] for segment in range(3)]
    assert capacities == [20, 40, 20]


def test_state_carries_over_at_the_start_and_at_the_end() -> None:
    compiler = compiled(world(BASE, overrides=[doubled(NOW_US, NOW_US + HOUR_US)]))
    before, during, after = (row(plan(compiler, segment=segment), "burst") for segment in range(3))
    assert "past" not in before
    assert (during["T"], during["past"][0][0]) == (NOW_US, before["h"])
    assert (after["T"], after["past"][0][0]) == (NOW_US + HOUR_US, during["h"])
    assert after["h"] == before["h"]


def test_override_without_an_end_holds_until_it_is_removed() -> None:
    compiler = compiled(world(BASE, overrides=[doubled(NOW_US, None)]))
    assert [at for at, _ in timeline(compiler)] == [0, NOW_US]


def test_overlapping_overrides_make_a_segment_for_each_change() -> None:
    first, second = doubled(NOW_US, NOW_US + 2 * HOUR_US), doubled(NOW_US + HOUR_US, NOW_US + 3 * HOUR_US, 2)
    compiler = compiled(world(BASE, overrides=[first, second]))
    capacities = [row(plan(compiler, segment=segment), "burst")["n"] for segment in range(5)]
    assert capacities == [20, 40, 80, 40, 20]


def test_override_that_changes_nothing_needs_no_timeline() -> None:
    same = Override(1, "acme", "*", NOW_US, NOW_US + HOUR_US, limits={"burst": {"burst": 20}})
    assert len(timeline(compiled(world(BASE, overrides=[same])))) == 1


def test_ended_override_is_remembered_so_that_state_carries_back() -> None:
    compiler = compiled(world(BASE, overrides=[doubled(NOW_US - 2 * DAY_US, NOW_US - DAY_US)]))
    assert row(plan(compiler), "burst")["past"][0][1]["n"] == 40


def test_override_that_ended_before_this_month_leaves_one_set() -> None:
    compiler = compiled(world(BASE, overrides=[doubled(NOW_US - 30 * DAY_US, NOW_US - 20 * DAY_US)]))
    assert entry(compiler)[5:].startswith('{"s":')
    assert row(plan(compiler), "burst")["T"] == NOW_US - 20 * DAY_US


def test_tenant_is_plain_again_long_after_its_override() -> None:
    compiler = compiled(world(BASE, overrides=[doubled(NOW_US - 90 * DAY_US, NOW_US - 80 * DAY_US)]))
    assert entry(compiler) == "00001t2"
    assert row(plan(compiler), "burst")["h"] == row(plan(compiled(world(BASE))), "burst")["h"]


def test_other_limits_of_the_tenant_keep_their_fingerprint() -> None:
    policy = tier_policy("*", limit("burst"), limit("minute", "fixed_window", limit=5, window="1m"))
    raised = Override(1, "acme", "*", NOW_US, NOW_US + HOUR_US, limits={"burst": {"burst": 99}})
    compiler = compiled(world(policy, overrides=[raised]))
    plain = row(plan(compiler, tenant="bob"), "minute")
    assert all(row(plan(compiler, segment=segment), "minute") == plain for segment in range(3))


def test_tenants_of_a_shard_share_what_is_equal() -> None:
    own = [tenant_policy("*", limit("burst", rate=99), tenant=name) for name in ("acme", "bob", "carol")]
    compiler = compiled(world(BASE, *own))
    assert timeline(compiler, "acme") == timeline(compiler, "bob")
    plans = {name for image in compiler.image.shards for name in image.config if name.startswith("p:")}
    assert len(plans) == 3  # tier free without limits, tier pro, and the one of all three tenants
    assert shard(compiler).config
