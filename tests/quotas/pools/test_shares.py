"""Shares are written as policies of tenants, all in one revision that can be taken back."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any, TypedDict

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from headroom_edge.algorithms.sharing import Borrowing
from quotas.changes.commit import Proposed, Written, commit
from quotas.changes.undo import revision_revert
from quotas.errors import Refused
from quotas.models import Policy, Revision
from quotas.overrides import override_create
from quotas.policies.edit import limit_set
from quotas.policies.limit_codec import row_fields
from quotas.pools.members import members_read
from quotas.pools.queries import PoolRow, pool_read
from quotas.pools.shares import (
    WantedShare,
    evenly,
    member_add,
    pool_create,
    pool_set,
    promise_with_member,
    promise_with_pool,
    share_edits,
    shares_plan,
    shares_set,
)
from quotas.tenants import NewTenant, tenants_create, tier_create
from tests.quotas.pools.world import make_pool_world, make_team_world
from tests.quotas.world import FORCED, PAY, SAID, limit_of, newest

pytestmark = pytest.mark.django_db


class Named(TypedDict):
    policy: str
    limit: str


CARDS: Named = {"policy": "everyone-charge", "limit": "cards"}


@pytest.fixture
def cards(valkey: object) -> PoolRow:
    make_pool_world()
    found = pool_read("everyone-charge", "cards")
    assert found is not None
    return found


def members_share(pool: PoolRow, tenant: str) -> Borrowing:
    return next(share.algorithm for share in members_read(pool).shares if share.tenant == tenant)


def assured(pool: PoolRow) -> dict[str, int]:
    return {share.tenant: share.algorithm.assured for share in members_read(pool).shares}


class TestShares:
    def test_many_shares_are_one_revision(self, cards: PoolRow) -> None:
        before = Revision.objects.count()
        wanted = [WantedShare("kite", assured=40, ceiling=60), WantedShare("lagoon", assured=15)]
        shares_set(**CARDS, shares=wanted, **FORCED)
        assert assured(cards) == {"kite": 40, "lagoon": 15, "summit": 20}
        assert Revision.objects.count() == before + 1
        assert Policy.objects.filter(tenant__name="kite").get().scope == PAY

    def test_undo_gives_the_shares_of_the_tier_back(self, cards: PoolRow) -> None:
        shares_set(**CARDS, shares=[WantedShare("kite", assured=40)], **FORCED)
        revision_revert(number=newest().number, **FORCED)
        assert assured(cards)["kite"] == 30
        assert not Policy.objects.filter(tenant__name="kite").exists()

    def test_a_dry_run_says_what_would_change_and_writes_nothing(self, cards: PoolRow) -> None:
        outcome = commit(lambda: shares_set(**CARDS, shares=[WantedShare("kite", assured=5)], **FORCED), "dry_run")
        assert isinstance(outcome, Proposed)
        assert assured(cards)["kite"] == 30

    def test_a_written_outcome_has_its_revision(self, cards: PoolRow) -> None:
        outcome = commit(lambda: shares_set(**CARDS, shares=[WantedShare("kite", assured=31)], **FORCED))
        assert isinstance(outcome, Written)
        assert outcome.revision.action == "limits_set"

    def test_the_own_share_can_go(self, cards: PoolRow) -> None:
        shares_set(**CARDS, shares=[WantedShare("kite", assured=40)], **FORCED)
        shares_set(**CARDS, shares=[WantedShare("kite", is_removed=True)], **FORCED)
        assert assured(cards)["kite"] == 30

    def test_usual_bursts_follow_the_share(self, cards: PoolRow) -> None:
        shares_set(**CARDS, shares=[WantedShare("kite", assured=40, ceiling=80)], **FORCED)
        fields = row_fields(limit_of(Policy.objects.get(tenant__name="kite").name, "charge"))
        assert (fields["burst"], fields["ceiling_burst"]) == (40, 80)

    @pytest.mark.parametrize(
        ("wanted", "kept"),
        [
            (WantedShare("kite", ceiling=7), ("10s", 26, 70)),
            (WantedShare("kite", assured=3), ("10s", 30, 50)),
            (WantedShare("kite", assured=Fraction("2.35")), ("20s", 47, 100)),
            (WantedShare("kite", weight=2), ("10s", 26, 50)),
            (WantedShare("kite", assured=Fraction(repr(2.6))), ("10s", 26, 50)),
        ],
    )
    def test_a_share_in_a_time_of_its_own_keeps_what_is_not_edited(
        self, cards: PoolRow, wanted: WantedShare, kept: tuple[str, int, int]
    ) -> None:
        share = {"name": "charge", "algorithm": "borrowing", "assured": 26, "ceiling": 50, "per": "10s"}
        limit_set(policy="gold-charge", limit={**share, "parent": "cards"}, **FORCED)
        shares_set(**CARDS, shares=[wanted], **FORCED)
        found = row_fields(limit_of(Policy.objects.get(tenant__name="kite").name, "charge"))
        assert (found["per"], found["assured"], found["ceiling"]) == kept

    def test_a_small_share_in_a_time_of_its_own_is_not_lost(self, cards: PoolRow) -> None:
        share = {"name": "charge", "algorithm": "borrowing", "assured": 4, "per": "10s", "parent": "cards"}
        limit_set(policy="gold-charge", limit=share, **FORCED)
        shares_set(**CARDS, shares=[WantedShare("kite", ceiling=5)], **FORCED)
        assert assured(cards)["kite"] == 4

    def test_a_share_with_decimals_is_kept_exactly(self, cards: PoolRow) -> None:
        """Its burst and its weight are those of the whole units beside it."""
        shares_set(**CARDS, shares=[WantedShare("kite", assured=Fraction("4.2"))], **FORCED)
        found = row_fields(limit_of(Policy.objects.get(tenant__name="kite").name, "charge"))
        names = ("assured", "per", "burst", "ceiling", "ceiling_burst", "weight")
        assert [found[name] for name in names] == [21, "5s", 5, 300, 60, 4]
        shares_set(**CARDS, shares=[WantedShare("kite", assured=Fraction("7.5"))], **FORCED)
        found = row_fields(limit_of(Policy.objects.get(tenant__name="kite").name, "charge"))
        assert [found[name] for name in names] == [15, "2s", 8, 120, 60, 8]

    def test_a_share_that_was_below_one_gets_the_usual_bursts_when_it_is_raised(self, cards: PoolRow) -> None:
        small = WantedShare("kite", assured=Fraction("0.01"), ceiling=Fraction("0.1"))
        shares_set(**CARDS, shares=[small], **FORCED)
        shares_set(**CARDS, shares=[WantedShare("kite", assured=20, ceiling=40)], **FORCED)
        found = row_fields(limit_of(Policy.objects.get(tenant__name="kite").name, "charge"))
        assert [found[name] for name in ("assured", "per", "burst", "ceiling", "ceiling_burst")] == [
            *(2_000, "100s", 20),
            *(4_000, 40),
        ]

    def test_a_weight_counts_by_the_share_whatever_the_time(self, cards: PoolRow) -> None:
        def weight(**edit: Any) -> int:
            shares_set(**CARDS, shares=[WantedShare("kite", **edit)], **FORCED)
            return members_share(cards, "kite").counts_as

        assert weight(assured=Fraction("4.2"), ceiling=60) == 4
        assert weight(assured=20) == 20
        assert weight(weight=77) == 77
        assert weight(weight=None) == 20
        pool_set(**CARDS, fields={"rate": "6000/1m"}, **FORCED)
        assert weight(assured=1210) == 20

    def test_a_reserve_and_a_ceilings_burst_follow_a_share(self, cards: PoolRow) -> None:
        share = {"name": "charge", "algorithm": "borrowing", "assured": 30, "ceiling": 60, "parent": "cards"}
        limit_set(policy="gold-charge", limit={**share, "reserve": 20, "ceiling_burst": 35}, **FORCED)
        shares_set(**CARDS, shares=[WantedShare("kite", assured=10), WantedShare("lagoon", assured=50)], **FORCED)
        kept = {
            name: row_fields(limit_of(Policy.objects.get(tenant__name=name).name, "charge"))
            for name in ("kite", "lagoon")
        }
        assert (kept["kite"]["burst"], kept["kite"]["reserve"]) == (10, 10)
        assert (kept["lagoon"]["burst"], kept["lagoon"]["ceiling_burst"]) == (50, 50)

    def test_a_share_of_nothing_only_borrows(self, cards: PoolRow) -> None:
        shares_set(**CARDS, shares=[WantedShare("kite", assured=0, ceiling=None)], **FORCED)
        assert assured(cards)["kite"] == 0

    @pytest.mark.parametrize(
        ("wanted", "said"),
        [
            ([WantedShare("nobody", assured=1)], "no tenant nobody"),
            ([WantedShare("kite", is_removed=True)], "comes from tier gold"),
            ([WantedShare("kite", assured=1), WantedShare("kite", assured=2)], "named twice"),
            ([WantedShare("kite", assured=90)], "the ceiling of kite, 60, is below"),
            ([WantedShare("kite", assured=Fraction("1.2345678"))], "assured has more than 6 decimals; round it"),
            ([WantedShare("kite", assured=2**50, ceiling=None)], "the share of kite: assured is too high to count"),
            ([WantedShare("kite", limit="other", assured=1)], "has no share of cards"),
            ([], "name from 1 to 200 members"),
        ],
    )
    def test_what_cannot_be_is_refused(self, cards: PoolRow, wanted: list[WantedShare], said: str) -> None:
        with pytest.raises(Refused, match=said):
            shares_set(**CARDS, shares=wanted, **FORCED)

    def test_a_share_that_an_override_changes_is_refused(self, cards: PoolRow) -> None:
        override_create(tenant="kite", endpoint=PAY, limits={"charge": {"ceiling": 70}}, **FORCED)
        with pytest.raises(Refused, match="end it first"):
            shares_set(**CARDS, shares=[WantedShare("kite", assured=40)], **FORCED)

    def test_the_number_of_queries_does_not_grow_with_the_shares(self, cards: PoolRow) -> None:
        found = []
        for tenants in (("kite",), ("kite", "lagoon", "summit")):
            with CaptureQueriesContext(connection) as captured:
                share_edits(cards, [WantedShare(tenant, assured=1) for tenant in tenants])
            found.append(len(captured))
        assert found[0] == found[1]

    def test_even_parts_add_up_to_the_rate(self, cards: PoolRow) -> None:
        found = evenly(cards, members_read(cards).shares)
        assert [each.assured for each in found] == [34, 33, 33]

    def test_a_share_that_is_removed_is_counted_as_that_of_its_tier(self, cards: PoolRow) -> None:
        shares_set(**CARDS, shares=[WantedShare("kite", assured=90, ceiling=90)], **FORCED)
        assert shares_plan(cards, [WantedShare("kite", assured=91, ceiling=91)]).promise.percent < 100
        assert shares_plan(cards, [WantedShare("kite", is_removed=True)]).promise.assured == 80

    def test_children_of_a_tiers_pool_are_edited_where_they_are_written(self, valkey: object) -> None:
        make_team_world()
        shares_set(policy="plain-all", limit="org", shares=[WantedShare(limit="key", assured=25)], **FORCED)
        assert row_fields(limit_of("plain-all", "key"))["assured"] == 25


class TestPools:
    def test_its_rate_burst_and_reserve_are_edited(self, cards: PoolRow) -> None:
        pool_set(**CARDS, fields={"rate": 120, "reserve": 80}, **FORCED)
        found = pool_read("everyone-charge", "cards")
        assert found is not None
        assert (found.rate, found.algorithm.burst, found.algorithm.reserve) == (120, 200, 80)

    def test_a_rate_that_names_its_time_needs_no_other(self, cards: PoolRow) -> None:
        pool_set(**CARDS, fields={"rate": "4.2/10s"}, **FORCED)
        found = pool_read("everyone-charge", "cards")
        assert found is not None
        assert (found.rate, found.seconds) == (4.2, 10)
        assert promise_with_pool(found, {"rate": "60/1m"}).rate == 1

    def test_a_new_pool_makes_a_policy_or_joins_one(self, cards: PoolRow) -> None:
        made = pool_create(name="exports", endpoint="payments:refund", fields={"rate": 10}, **FORCED)
        assert made is not None
        assert (made.kind, made.scope) == ("shared", "payments:refund")
        other = pool_create(name="other", endpoint="payments:refund", fields={"rate": 10}, **FORCED)
        assert other is not None
        assert other.policy == made.policy

    def test_a_name_that_is_taken_is_refused(self, cards: PoolRow) -> None:
        with pytest.raises(Refused, match="already has a limit cards"):
            pool_create(name="cards", endpoint=PAY, fields={"rate": 10}, **FORCED)

    def test_a_pool_may_start_in_shadow(self, cards: PoolRow) -> None:
        made = pool_create(name="try", endpoint="payments:refund", fields={"rate": 9, "mode": "shadow"}, **FORCED)
        assert made is not None
        member_add(policy=made.policy, limit="try", tier="gold", fields={"assured": 3}, **FORCED)
        assert {share.tenant for share in members_read(made).shares} == {"kite", "lagoon"}


class TestNewMembers:
    def test_a_tenant_joins(self, cards: PoolRow) -> None:
        tier_create(name="bare", label="", description="", **SAID)
        tenants_create(tenants=[NewTenant("guest", "bare")], **SAID)
        member_add(**CARDS, tenant="guest", fields={"assured": 5, "ceiling": 9}, **FORCED)
        assert assured(cards)["guest"] == 5

    def test_a_tier_joins(self, cards: PoolRow) -> None:
        tier_create(name="bare", label="", description="", **SAID)
        tenants_create(tenants=[NewTenant("guest", "bare")], **SAID)
        member_add(**CARDS, tier="bare", fields={"assured": 5}, **FORCED)
        assert assured(cards)["guest"] == 5

    def test_a_tenants_share_of_its_tiers_pool_replaces_the_tiers(self, valkey: object) -> None:
        make_team_world()
        found = pool_read("plain-all", "org")
        assert found is not None
        fields = {"assured": 300, "ceiling": 800}
        assert promise_with_member(found, fields=fields, tier=None, tenant="acme", name="team").assured == 300

    def test_a_share_with_decimals_joins(self, cards: PoolRow) -> None:
        tier_create(name="bare", label="", description="", **SAID)
        tenants_create(tenants=[NewTenant("guest", "bare")], **SAID)
        member_add(**CARDS, tenant="guest", fields={"assured": Fraction("0.4"), "ceiling": 2}, **FORCED)
        [share] = [each for each in members_read(cards).shares if each.tenant == "guest"]
        assert (share.assured(cards.algorithm), share.ceiling(cards.algorithm)) == (Fraction("0.4"), Fraction(2))

    def test_a_second_share_on_one_place_is_refused(self, cards: PoolRow) -> None:
        for name in ("", "other"):
            with pytest.raises(Refused, match="limit charge of gold-charge is there already; change that limit"):
                member_add(**CARDS, tier="gold", name=name, fields={"assured": 5}, **FORCED)

    def test_only_who_has_a_pool_gets_a_share_of_it(self, cards: PoolRow) -> None:
        make_team_world()
        add = partial(member_add, policy="plain-all", limit="org", name="more", fields={"assured": 5}, **FORCED)
        with pytest.raises(Refused, match="org is a pool of tier plain; choose this tier"):
            add(tier="gold")
        with pytest.raises(Refused, match="org is a pool of tier plain; choose a tenant of this tier"):
            add(tenant="kite")
        own = pool_create(name="own", tenant="kite", fields={"rate": 10}, **FORCED)
        assert own is not None
        with pytest.raises(Refused, match="own is a pool of tenant kite; choose this tenant"):
            member_add(policy=own.policy, limit="own", tier="gold", fields={"assured": 5}, **FORCED)

    def test_a_scope_that_the_pool_does_not_count_is_refused(self, cards: PoolRow) -> None:
        with pytest.raises(Refused, match="does not count on cards"):
            member_add(**CARDS, tenant="kite", scope="payments:refund", fields={"assured": 5}, **FORCED)
