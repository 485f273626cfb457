"""Who has a share of a pool, and how much."""

from __future__ import annotations

from fractions import Fraction

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from quotas.matrix.edit import Edit, limits_set
from quotas.models import Endpoint
from quotas.overrides import override_create
from quotas.policies.edit import limit_set, policy_create
from quotas.pools.members import PAGE, Members, members_read, tenant_members
from quotas.pools.queries import PoolRow, pool_read, pools_found
from quotas.tenants import NewTenant, tenant_archive, tenants_create, tier_create
from tenants.models import Tenant, Tier
from tests.quotas.pools.world import grow, make_pool_world, make_team_world
from tests.quotas.world import FORCED, PAY, SAID

pytestmark = pytest.mark.django_db


def cards() -> PoolRow:
    found = pool_read("everyone-charge", "cards")
    assert found is not None
    return found


def shares(members: Members) -> dict[str, tuple[int, int | None, bool]]:
    return {share.tenant: (share.algorithm.assured, share.algorithm.ceiling, share.is_own) for share in members.shares}


class TestASharedPool:
    def test_its_members_are_the_tenants_whose_tier_borrows_from_it(self, valkey: object) -> None:
        make_pool_world()
        members = members_read(cards())
        assert shares(members) == {"kite": (30, 60, False), "lagoon": (30, 60, False), "summit": (20, None, False)}
        assert members.count == 3

    def test_a_tenant_has_a_share_of_its_own(self, valkey: object) -> None:
        make_pool_world()
        own = {"name": "charge", "algorithm": "borrowing", "assured": 40, "ceiling": 90, "parent": "cards"}
        policy_create(name="kite-own", tenant="kite", endpoint=PAY, limits=[own], **FORCED)
        assert shares(members_read(cards()))["kite"] == (40, 90, True)

    def test_a_tenant_of_another_tier_joins_with_a_policy_of_its_own(self, valkey: object) -> None:
        make_pool_world()
        tier_create(name="bare", label="", description="", **SAID)
        tenants_create(tenants=[NewTenant("guest", "bare")], **SAID)
        own = {"name": "charge", "algorithm": "borrowing", "assured": 5, "parent": "cards"}
        policy_create(name="guest-own", tenant="guest", endpoint=PAY, limits=[own], **FORCED)
        assert shares(members_read(cards()))["guest"] == (5, None, True)

    def test_a_tenant_with_another_limit_of_that_name_is_no_member(self, valkey: object) -> None:
        make_pool_world()
        own = {"name": "charge", "algorithm": "token_bucket", "rate": 5, "burst": 5}
        policy_create(name="kite-own", tenant="kite", endpoint=PAY, limits=[own], **FORCED)
        assert "kite" not in shares(members_read(cards()))

    @pytest.mark.parametrize(
        ("endpoint", "tier", "tenant", "effective"),
        [
            ("critical", "", "", "critical"),
            ("critical", "high", "", "high"),
            ("high", "critical", "sheddable", "sheddable"),
            ("sheddable", "", "high", "sheddable"),
        ],
    )
    def test_its_priority_is_the_lowest_of_the_endpoints_the_tiers_and_the_tenants(
        self, valkey: object, endpoint: str, tier: str, tenant: str, effective: str
    ) -> None:
        make_pool_world()
        Endpoint.objects.filter(name=PAY).update(priority=endpoint)
        Tier.objects.filter(name="gold").update(priority=tier)
        Tenant.objects.filter(name="kite").update(priority=tenant)
        assert {share.tenant: share.priority for share in members_read(cards()).shares}["kite"] == effective

    def test_an_archived_tenant_is_no_member(self, valkey: object) -> None:
        make_pool_world()
        tenant_archive(name="kite", **SAID)
        assert "kite" not in shares(members_read(cards()))

    def test_an_override_that_is_in_force_counts(self, valkey: object) -> None:
        make_pool_world()
        override_create(tenant="kite", endpoint=PAY, limits={"charge": {"ceiling": 70}}, **FORCED)
        assert shares(members_read(cards()))["kite"] == (30, 70, False)

    def test_the_promise_is_that_to_all_members(self, valkey: object) -> None:
        make_pool_world()
        told = members_read(cards()).promise
        assert (told.assured, told.rate, told.bursts, told.reserve) == (Fraction(80), Fraction(100), 80, 100)
        assert told.warnings == ()

    def test_shares_above_the_rate_are_best_effort(self, valkey: object) -> None:
        make_pool_world()
        limit_set(
            policy="gold-charge",
            limit={"name": "charge", "algorithm": "borrowing", "assured": 50, "ceiling": 60, "parent": "cards"},
            **FORCED,
        )
        assert "83 %" in members_read(cards()).promise.warnings[0]

    def test_a_large_pool_comes_in_pages_with_the_promise_to_all(self, valkey: object) -> None:
        make_pool_world()
        grow(2 * PAGE)
        own = {"name": "charge", "algorithm": "borrowing", "assured": 600, "per": "1m", "parent": "cards"}
        policy_create(name="fleet-own", tenant="fleet-1", endpoint=PAY, limits=[own], **FORCED)
        first = members_read(cards(), order="name")
        assert (len(first.shares), first.count) == (PAGE, 2 * PAGE + 3)
        assert first.promise.assured == 30 * (2 * PAGE + 1) + 20 + 10
        second = members_read(cards(), order="name", after=first.next)
        assert not {share.tenant for share in first.shares} & {share.tenant for share in second.shares}

    def test_the_number_of_queries_does_not_grow_with_the_members(self, valkey: object) -> None:
        make_pool_world()
        grow(PAGE + 1)
        with CaptureQueriesContext(connection) as few:
            members_read(cards())
        tenants_create(tenants=[NewTenant(f"more-{each}", "gold") for each in range(60)], **SAID)
        with CaptureQueriesContext(connection) as many:
            members_read(cards())
        assert len(few) == len(many)

    def test_the_number_of_queries_does_not_grow_with_the_tiers(self, valkey: object) -> None:
        make_pool_world()
        grow(PAGE + 1)
        with CaptureQueriesContext(connection) as few:
            members_read(cards())
        share = {"name": "charge", "algorithm": "borrowing", "assured": 7, "parent": "cards"}
        for name in ("bronze", "copper"):
            tier_create(name=name, **SAID)
            tenants_create(tenants=[NewTenant(f"{name}-1", name)], **SAID)
            policy_create(name=f"{name}-charge", tier=name, endpoint=PAY, limits=[share], **FORCED)
        with CaptureQueriesContext(connection) as many:
            found = members_read(cards())
        assert len(few) == len(many)
        assert found.promise.assured == 30 * (PAGE + 3) + 20 + 2 * 7

    def test_nodes_of_everyone_lie_between_the_pool_and_its_tenants(self, valkey: object) -> None:
        make_pool_world()
        node = {"algorithm": "borrowing", "assured": 60, "burst": 60, "parent": "cards"}
        edits = [
            Edit(None, PAY, "fleets", node),
            Edit("gold", PAY, "charge", {"algorithm": "borrowing", "assured": 30, "parent": "fleets"}),
            Edit("silver", PAY, "charge", {"algorithm": "borrowing", "assured": 20, "parent": "fleets"}),
        ]
        limits_set(edits=edits, **FORCED)
        members = members_read(cards())
        assert [(each.limit, each.level) for each in members.nodes] == [("fleets", 2)]
        assert {(share.tenant, share.level, share.parent) for share in members.shares} == {
            ("kite", 3, "fleets"),
            ("lagoon", 3, "fleets"),
            ("summit", 3, "fleets"),
        }
        assert members.promise.assured == 60


class TestAPoolInsideATenant:
    def test_its_members_are_the_limits_that_borrow_from_it(self, valkey: object) -> None:
        make_team_world()
        pool = pool_read("plain-all", "org")
        assert pool is not None
        assert pool.kind == "tier"
        [team] = members_read(pool).shares
        assert (team.limit, team.subject, team.level) == ("team", "team", 2)
        assert [(key.limit, key.level) for key in team.children] == [("key", 3)]
        [own] = tenant_members(pool, "acme").shares
        assert (own.tenant, own.is_own) == ("acme", False)

    def test_pools_of_a_tenant_are_found(self, valkey: object) -> None:
        make_team_world()
        make_pool_world()
        assert [pool.name for pool in pools_found(tenant=Tenant.objects.get(name="acme"))] == ["cards", "org"]
        assert [pool.name for pool in pools_found(scope=PAY)] == ["cards", "org"]
        assert [pool.name for pool in pools_found(scope="other:thing")] == ["org"]
