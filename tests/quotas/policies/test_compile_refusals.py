"""What cannot be enforced is named, keeps its last good state, and stops nobody else."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from headroom_edge.keys import EVERYONE, EVERYONES_SHARD
from quotas.policies.compile import Compiler, Owner, Piece, check_compiles
from quotas.policies.configuration_index import Touched
from quotas.policies.spec import Configuration, Endpoint, Policy, Tenant
from tests.quotas.policies.worlds import (
    NOW_US,
    compiled,
    entry,
    global_policy,
    limit,
    plan,
    row,
    shard,
    tenant_policy,
    tier_policy,
    timeline,
    world,
)

GOOD = tier_policy("*", limit("burst"))
QUEUE = limit("queue", "leaky_bucket", rate=10, queue=5)
OTHER_QUEUE = limit("other", "leaky_bucket", rate=10, queue=5)
MANY = tuple(limit(f"limit-{number}") for number in range(33))

BROKEN: dict[str, tuple[Configuration, Owner, str]] = {
    "two enforced leaky buckets": (world(tier_policy("*", QUEUE, OTHER_QUEUE)), Owner("tier", "pro"), "leaky_bucket"),
    "two leaky buckets of different sources": (
        world(tier_policy("*", QUEUE), tenant_policy("search:query", OTHER_QUEUE)),
        Owner("tenant", "acme"),
        "other (tenant acme × search:query), queue (tier pro × *)",
    ),
    "too many limits": (world(tier_policy("*", *MANY)), Owner("tier", "pro"), "33 limits"),
    "an endpoint nobody registered": (
        world(tier_policy("search:nothing", limit("burst"))),
        Owner("tier", "pro"),
        "'search:nothing' is not registered",
    ),
    "a limit without a number": (
        replace(world(GOOD), limit_numbers={}),
        Owner("tier", "pro"),
        "limit 'burst' has no number",
    ),
    "a global calendar on every tenant's own zone": (
        world(global_policy("*", limit("daily", "calendar_quota", limit=5, period="day"))),
        Owner("global", "*"),
        "timezone",
    ),
    "a tenant of a tier that does not exist": (
        world(GOOD, tenants=[Tenant(9, "dave", "gold")]),
        Owner("tenant", "dave"),
        "tier 'gold' does not exist",
    ),
    "a tenant whose number has six digits": (
        world(GOOD, tenants=[Tenant(36**5, "dave", "pro")]),
        Owner("tenant", "dave"),
        "number 60466176",
    ),
    "an endpoint whose cost is too high": (
        replace(world(GOOD), endpoints={"search:query": Endpoint(1, "search:query", 10**10)}),
        Owner("endpoint", "search:query"),
        "default_cost 10000000000",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_refusal_names_the_object_and_the_field(case: str) -> None:
    configuration, owner, words = BROKEN[case]
    assert words in compiled(configuration).problems[owner]


@pytest.mark.parametrize("case", BROKEN)
def test_edit_is_checked_before_it_is_written(case: str) -> None:
    configuration, owner, words = BROKEN[case]
    touched = Touched(frozenset(configuration.tenants), frozenset(configuration.tiers), common=True)
    assert words in check_compiles(configuration, touched, NOW_US, clustered=False)[owner]


def test_check_of_a_tier_covers_its_tenants_with_limits_of_their_own() -> None:
    configuration = world(tier_policy("*", QUEUE), tenant_policy("search:query", OTHER_QUEUE))
    problems = check_compiles(configuration, Touched(tiers=frozenset({"pro"})), NOW_US, clustered=False)
    assert problems.keys() == {Owner("tenant", "acme")}


def test_check_of_a_good_edit_finds_nothing() -> None:
    configuration = world(GOOD, tenant_policy("*", limit("burst", rate=99)))
    assert check_compiles(configuration, Touched(frozenset({"acme"})), NOW_US, clustered=False) == {}


def test_global_limits_have_plans_of_their_own_in_a_cluster() -> None:
    compiler = compiled(world(GOOD, global_policy("*", limit("total"))), clustered=True)
    assert not compiler.problems
    home = compiler.image.home
    assert home is not None
    plans = [json.loads(text) for name, text in home.config.items() if name.startswith("p:")]
    assert [[row["name"] for group in plan["g"] for row in group["l"]] for plan in plans] == [["total"]]
    plans = [json.loads(text) for name, text in compiler.image.shards[0].config.items() if name.startswith("p:")]
    assert not any(group.get("a") for plan in plans for group in plan["g"])
    assert all(list(plan["G"]) == ["total"] for plan in plans)


def test_the_home_keeps_what_was_good_when_a_global_policy_is_broken_and_nothing_good_is_known() -> None:
    good = compiled(world(GOOD, global_policy("*", limit("total", rate=5, burst=5))), clustered=True)
    broken = replace(global_policy("*", limit("total")), problem="it cannot be read")
    compiler = compiled(world(GOOD, broken), clustered=True)
    assert good.image.home is not None
    assert compiler.image.home is not None
    assert compiler.is_home_lost
    assert compiler.image.home.entries == {}
    entry = good.image.home.entries[EVERYONE]
    fields = {name: text for name, text in good.image.home.config.items() if name[:2] in ("s:", "p:")}
    compiler.restore_home(entry, fields)
    compiler.seal()
    assert compiler.image.home.entries == good.image.home.entries
    assert fields.items() <= compiler.image.home.config.items()


def test_an_edit_of_a_global_limit_changes_its_home() -> None:
    compiler = compiled(world(GOOD, global_policy("*", limit("total", rate=5, burst=5))), clustered=True)
    before = compiler.image.home and compiler.image.home.token
    changed = world(GOOD, global_policy("*", limit("total", rate=7, burst=7)), revision=2)
    deltas = compiler.update(changed, Touched(common=True))
    assert compiler.image.home is not None
    assert deltas[EVERYONES_SHARD].base == before
    assert deltas[EVERYONES_SHARD].token == compiler.image.home.token != before


def test_one_enforced_leaky_bucket_and_one_in_shadow_are_fine() -> None:
    shadow = replace(OTHER_QUEUE, mode="shadow")
    assert not compiled(world(tier_policy("*", QUEUE, shadow))).problems


def edited(compiler: Compiler, *policies: Policy, touched: Touched) -> Compiler:
    compiler.update(world(*policies, revision=2), touched)
    return compiler


def test_broken_tenant_keeps_its_last_good_entry() -> None:
    own = tenant_policy("*", limit("burst", rate=99))
    compiler = compiled(world(GOOD, own))
    before = entry(compiler)
    edited(compiler, GOOD, tenant_policy("*", QUEUE, OTHER_QUEUE), touched=Touched(frozenset({"acme"})))
    assert entry(compiler) == before
    assert compiler.problems.keys() == {Owner("tenant", "acme")}


def test_broken_tier_keeps_its_last_good_plans_and_stops_no_other() -> None:
    free = tier_policy("*", limit("burst"), tier="free")
    compiler = compiled(world(GOOD, free, tenants=[Tenant(9, "dave", "free")]))
    edited(
        compiler,
        tier_policy("*", QUEUE, OTHER_QUEUE),
        tier_policy("*", limit("burst", rate=7, burst=7), tier="free"),
        touched=Touched(frozenset({"dave"}), frozenset({"pro", "free"})),
    )
    assert row(plan(compiler, "acme"), "burst")["n"] == 20
    assert compiler.problems.keys() == {Owner("tier", "pro")}


def test_broken_global_policy_keeps_its_last_good_limits() -> None:
    compiler = compiled(world(GOOD, global_policy("*", limit("total", rate=5, burst=5))))
    broken = limit("daily", "calendar_quota", limit=5, period="day")
    edited(compiler, GOOD, global_policy("*", broken), touched=Touched(common=True))
    assert row(plan(compiler), "total")["n"] == 5
    assert compiler.problems.keys() == {Owner("global", "*")}


def test_broken_global_policy_of_which_nothing_good_is_known_changes_no_plan() -> None:
    broken = limit("daily", "calendar_quota", limit=5, period="day")
    compiler = compiled(world(GOOD, global_policy("*", broken)))
    assert compiler.problems.keys() == {Owner("global", "*"), Owner("tier", "free"), Owner("tier", "pro")}
    assert set(compiler.lost()) == {Owner("tier", "free"), Owner("tier", "pro")}


def test_problem_is_gone_once_it_is_mended() -> None:
    compiler = compiled(world(tier_policy("*", QUEUE, OTHER_QUEUE)))
    edited(compiler, tier_policy("*", QUEUE), touched=Touched(tiers=frozenset({"pro"})))
    assert not compiler.problems
    assert row(plan(compiler), "queue")


def test_what_a_former_process_published_can_be_given_back() -> None:
    former = compiled(world(GOOD, tenant_policy("*", limit("burst", rate=99))))
    compiler = compiled(world(tier_policy("*", QUEUE, OTHER_QUEUE), tenant_policy("*", QUEUE, OTHER_QUEUE)))
    assert set(compiler.lost()) == {Owner("tier", "pro"), Owner("tenant", "acme")}
    fields = {name: text for name, text in shard(former).config.items() if name[:2] in ("s:", "p:")}
    tier_set = timeline(former, "bob")[0][1]
    compiler.restore_tier("pro", {"t2": Piece(tier_set, fields), "t1": Piece(tier_set, fields)})
    compiler.restore_tenant("acme", entry(former), fields)
    compiler.seal()
    assert row(plan(compiler, "acme"), "burst") == row(plan(former, "acme"), "burst")
    assert row(plan(compiler, "bob"), "burst") == row(plan(former, "bob"), "burst")
