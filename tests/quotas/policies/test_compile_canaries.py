from __future__ import annotations

import json
from dataclasses import replace

import pytest

from headroom_edge.algorithms import ALGORITHMS
from quotas.policies.canary import CanaryChange, canaries_of
from quotas.policies.compile import Compiler, Piece
from quotas.policies.configuration_index import Touched
from quotas.policies.limit_codec import limit_fields, policies_of
from quotas.policies.shard_image import Delta
from quotas.policies.spec import CANARY_PARTS, Canary, Configuration, Generation, Policy, Tenant
from tests.quotas.policies.worlds import (
    NOW_US,
    compiled,
    entry,
    limit,
    plan,
    row,
    shard,
    tenant_policy,
    tier_policy,
    world,
)

LIVE = tier_policy("*", limit("burst", rate=10, since_us=5))
TRIED = tier_policy("*", limit("burst", rate=7))
PRO = Touched(tiers=frozenset({"pro"}))
MANY = [Tenant(number, f"t-{number}", "pro") for number in range(100, 600)]


def state(policy: Policy) -> dict[str, object]:
    limits = {one.name: limit_fields(one) for one in policy.limits}
    return {"tier": policy.tier, "tenant": None, "endpoint": policy.endpoint, "limits": limits}


def canary(share: int = 500, policy: Policy = TRIED, live: Policy = LIVE, change: int = 1) -> Canary:
    trial = CanaryChange(change, share, policies_of({"pro": state(policy)}), NOW_US, "proportional")
    return next(canaries_of(trial, [replace(live, name="pro")]))


def tried(configuration: Configuration, *canaries: Canary, revision: int = 2) -> Configuration:
    return replace(configuration, canaries=canaries, revision=revision)


def rate(compiler: Compiler, tenant: str) -> int:
    """Per second; the interval is P/Q microseconds."""
    found = row(plan(compiler, tenant), "burst")
    return int(found["Q"]) * 1_000_000 // int(found["P"])


def contents(compiler: Compiler) -> list[object]:
    mains = [json.loads(one.config["main"]) | {"revision": 0} for one in compiler.image.shards]
    return [(one.entries, one.config | {"main": main}) for one, main in zip(compiler.image.shards, mains, strict=True)]


class TestWhoIsInIt:
    names = [f"tenant-{number}" for number in range(20_000)]

    def members(self, share: int, change: int = 1) -> set[str]:
        one = replace(canary(share), change=change)
        return {name for name in self.names if one.has(name)}

    @pytest.mark.parametrize("share", [1, 10, 100, 500, 999])
    def test_about_the_share(self, share: int) -> None:
        expected = len(self.names) * share / CANARY_PARTS
        spread = (expected * (1 - share / CANARY_PARTS)) ** 0.5
        assert abs(len(self.members(share)) - expected) < 4 * spread

    def test_a_larger_share_holds_the_smaller(self) -> None:
        assert self.members(50) < self.members(100) < self.members(500)

    def test_another_change_has_others(self) -> None:
        overlap = self.members(100) & self.members(100, change=2)
        assert 100 < len(overlap) < 300  # 200 by chance


class TestItsPlans:
    compiler = compiled(tried(world(LIVE, tenants=MANY), canary()))

    def test_those_in_it_have_the_other_plan_and_the_rest_the_live_one(self) -> None:
        one = canary()
        rates = {tenant.name: rate(self.compiler, tenant.name) for tenant in MANY}
        assert rates == {name: 7 if one.has(name) else 10 for name in rates}

    def test_they_share_it_as_the_others_share_theirs(self) -> None:
        refs = {entry(self.compiler, tenant.name)[5:] for tenant in MANY}
        assert refs == {"t2", "t2~"}

    def test_state_is_carried_over_from_the_live_limit(self) -> None:
        member = next(tenant.name for tenant in MANY if canary().has(tenant.name))
        found = row(plan(self.compiler, member), "burst")
        assert (found["T"], found["cm"], len(found["past"])) == (NOW_US, "proportional", 1)
        other = next(tenant.name for tenant in MANY if not canary().has(tenant.name))
        assert found["past"][0][0] == row(plan(self.compiler, other), "burst")["h"]

    def test_a_limit_that_it_leaves_alone_keeps_its_history(self) -> None:
        past = (Generation(ALGORITHMS["token_bucket"].parse({"rate": 3}), 0),)
        live = tier_policy("*", limit("burst", rate=10), limit("daily", rate=5, since_us=9, past=past))
        wanted = tier_policy("*", limit("burst", rate=7), limit("daily", rate=5))
        kept = canary(policy=wanted, live=live).policies["*"].limit("daily")
        assert kept
        assert (kept.since_us, kept.past) == (9, past)

    def test_its_source_says_so(self) -> None:
        assert canary().policies["*"].source == "tier pro × * (canary of change 1)"

    def test_a_policy_that_goes_takes_its_limits_along(self) -> None:
        live = tier_policy("search:query", limit("own", rate=1))
        gone = next(canaries_of(CanaryChange(1, 999, {live.name: None}, NOW_US, "keep"), [live]))
        compiler = compiled(tried(world(LIVE, live, tenants=MANY), gone))
        member = next(tenant.name for tenant in MANY if gone.has(tenant.name))
        assert [group["l"][0]["name"] for group in plan(compiler, member, "search:query")["g"]] == ["burst"]

    def test_a_tenant_with_limits_of_its_own_has_them_over_the_canary(self) -> None:
        names = [tenant.name for tenant in MANY[:40]]
        own = [tenant_policy("search:query", limit("own", rate=99), tenant=name) for name in names]
        compiler = compiled(tried(world(LIVE, *own, tenants=MANY), canary()))
        assert {name: rate(compiler, name) for name in names} == {n: 7 if canary().has(n) else 10 for n in names}

    def test_on_the_tenants_own_calendar_there_is_one_for_each_zone(self) -> None:
        calendar = tier_policy("*", limit("burst", "calendar_quota", limit=5, period="day"))
        people = [Tenant(number, f"k-{number}", "pro", timezone="Asia/Kolkata") for number in range(20)]
        compiler = compiled(
            tried(world(LIVE, tenants=[replace(t, number=t.number + 50) for t in people]), canary(policy=calendar))
        )
        assert json.loads(shard(compiler).config["main"])["tiers"].keys() == {
            "t1",
            "t2",
            "t2~",
            "t2@Asia/Kolkata",
            "t2~@Asia/Kolkata",
        }


STEPS = {
    "it starts": ((), (canary(),)),
    "its share grows": ((canary(100),), (canary(300),)),
    "its share shrinks": ((canary(300),), (canary(100),)),
    "it ends": ((canary(),), ()),
    "another takes its place": ((canary(),), (canary(change=2),)),
}


@pytest.mark.parametrize("step", STEPS)
def test_an_edit_leads_to_the_same_image_as_compiling_everything(step: str) -> None:
    before, after = STEPS[step]
    base = world(LIVE, tier_policy("*", limit("burst"), tier="free"), tenants=MANY)
    compiler = compiled(tried(base, *before, revision=1))
    compiler.update(tried(base, *after), PRO)
    assert contents(compiler) == contents(compiled(tried(base, *after)))


def sent(deltas: dict[int, Delta]) -> int:
    return sum(len(delta.entries) for delta in deltas.values())


def test_it_costs_the_entries_of_its_share() -> None:
    base = world(LIVE, tenants=MANY)
    compiler, one = compiled(base), canary(100)
    assert sent(compiler.update(tried(base, one), PRO)) == sum(one.has(name) for name in base.tenants)


def test_meanwhile_an_edit_of_the_tier_costs_no_entry() -> None:
    base = world(LIVE, tenants=MANY)
    compiler = compiled(tried(base, canary()))
    edited = world(LIVE, tier_policy("search:query", limit("own")), tenants=MANY)
    assert sent(compiler.update(tried(edited, canary(), revision=3), PRO)) == 0


def test_the_last_good_plans_of_both_sides_come_back() -> None:
    compiler = compiled(tried(world(LIVE, tenants=MANY), canary()))
    tiers = json.loads(shard(compiler).config["main"])["tiers"]
    compiler.restore_tier("pro", {ref: Piece(name, {f"s:{name}": "{}"}) for ref, name in tiers.items()})
    compiler.seal()
    assert json.loads(shard(compiler).config["main"])["tiers"].keys() == {"t1", "t2", "t2~"}
