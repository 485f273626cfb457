"""The priority of a request in its plan. Only plans with a pool have one."""

from __future__ import annotations

import json
from dataclasses import replace

from headroom_edge.keys import EVERYONE
from headroom_edge.plan.priority import Priority
from quotas.policies.configuration_index import Touched
from quotas.policies.spec import Configuration, Tenant, Tier
from tests.quotas.policies.worlds import compiled, entry, global_policy, limit, plan, shard, tier_policy, world

POOL = limit("org", "pool", rate=100, burst=200)
CRITICAL, SHEDDABLE, USUAL = "payments:create", "search:suggest", "search:query"


def ranked(configuration: Configuration, **priorities: str) -> Configuration:
    """Of tiers and tenants; two endpoints have one of their own."""
    own: dict[str, Priority] = {CRITICAL: "critical", SHEDDABLE: "sheddable"}
    endpoints = {name: replace(e, priority=own.get(name, "normal")) for name, e in configuration.endpoints.items()}
    tiers = {name: replace(t, priority=priorities.get(name, "")) for name, t in configuration.tiers.items()}
    tenants = {name: replace(t, priority=priorities.get(name, "")) for name, t in configuration.tenants.items()}
    return replace(configuration, endpoints=endpoints, tiers=tiers, tenants=tenants)


def numbers(configuration: Configuration, tenant: str = "bob") -> list[int | None]:
    compiler = compiled(configuration)
    return [plan(compiler, tenant, endpoint).get("pr") for endpoint in (CRITICAL, USUAL, SHEDDABLE, "*")]


def test_each_endpoint_has_its_own_and_the_usual_one_is_left_out() -> None:
    assert numbers(ranked(world(tier_policy("*", POOL)))) == [1, None, 4, None]


def test_a_global_pool_and_one_on_an_endpoint_count_too() -> None:
    assert numbers(ranked(world(global_policy("*", POOL)))) == [1, None, 4, None]
    assert numbers(ranked(world(tier_policy(CRITICAL, POOL)))) == [1, None, None, None]


def test_a_tier_and_a_tenant_only_lower_it() -> None:
    own = world(tier_policy("*", POOL))
    assert numbers(ranked(own, pro="high")) == [2, None, 4, None]
    assert numbers(ranked(own, pro="sheddable")) == [4, 4, 4, 4]
    assert numbers(ranked(own, pro="critical")) == [1, None, 4, None]
    assert numbers(ranked(own, pro="high", bob="normal")) == [None, None, 4, None]
    assert numbers(ranked(own, pro="normal", bob="critical")) == [None, None, 4, None]
    assert numbers(ranked(own, bob="sheddable"), tenant="carol") == [1, None, 4, None]


def test_plans_without_a_pool_stay_as_they_are() -> None:
    plain = world(tier_policy("*", limit("burst")), tier_policy(CRITICAL, limit("daily")))
    before, after = compiled(plain), compiled(ranked(plain, pro="sheddable", free="high"))
    assert [s.config for s in before.image.shards] == [s.config for s in after.image.shards]
    lowered = compiled(ranked(plain, bob="sheddable"))
    assert shard(lowered, "bob").config.keys() == shard(before, "bob").config.keys()


def test_a_pool_that_is_off_needs_no_priority() -> None:
    off = replace(POOL, mode="off")
    assert numbers(ranked(world(tier_policy("*", off, limit("burst"))))) == [None] * 4


def test_only_tenants_with_a_priority_of_their_own_have_plans_of_their_own() -> None:
    compiler = compiled(ranked(world(tier_policy("*", POOL)), bob="high"))
    assert json.loads(entry(compiler, "bob")[5:]).keys() == {"s"}
    assert entry(compiler, "carol") == "00003t2"


def test_an_edit_of_a_priority_leads_to_what_compiling_everything_gives() -> None:
    base = ranked(world(tier_policy("*", POOL)), bob="high")
    edits = {
        "tier": (ranked(base, pro="normal", bob="high"), Touched(tiers=frozenset({"pro"}))),
        "tenant": (ranked(base, carol="sheddable", bob="high"), Touched(tenants=frozenset({"carol"}))),
        "tenant, taken back": (ranked(base), Touched(tenants=frozenset({"bob"}))),
        "endpoint": (replace(base, endpoints=world().endpoints), Touched(common=True)),
    }
    for name, (after, touched) in edits.items():
        compiler = compiled(base)
        compiler.update(replace(after, revision=2), touched)
        whole = compiled(replace(after, revision=2))
        for one, other in zip(compiler.image.shards, whole.image.shards, strict=True):
            assert one.entries == other.entries, name
            # The main part has the revision of the shard's last change.
            assert {**one.config, "main": ""} == {**other.config, "main": ""}, name


def test_in_a_cluster_the_home_of_global_limits_knows_the_endpoints_alone() -> None:
    configuration = ranked(world(global_policy("*", POOL), tier_policy("*", limit("burst"))), pro="sheddable")
    compiler = compiled(configuration, clustered=True)
    assert plan(compiler, "bob", CRITICAL).get("pr") is None
    home = compiler.image.home
    assert home is not None
    plans = json.loads(home.config[f"s:{json.loads(home.entries[EVERYONE][5:])['s']}"])
    found = {name: json.loads(home.config[f"p:{text}"]).get("pr") for name, text in plans.items()}
    assert found == {"*": None, CRITICAL: 1, SHEDDABLE: 4}


def test_a_new_tier_and_a_new_tenant_have_none() -> None:
    assert (Tier(1, "free").priority, Tenant(1, "acme", "free").priority) == ("", "")
