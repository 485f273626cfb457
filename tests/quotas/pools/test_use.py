"""How much of a pool is used and borrowed, as the rollups have it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from quotas.pools.members import members_read, tenant_members
from quotas.pools.queries import PoolRow, pool_read
from quotas.pools.use import Amount, causes_read, history_read, use_read
from tenants.models import Tenant
from tests.dashboards.world import counted, denied, drained
from tests.quotas.pools.world import grow, make_pool_world, make_team_world
from tests.quotas.world import PAY

pytestmark = pytest.mark.django_db

JUST = timedelta(seconds=20)


def pool_of(policy: str, limit: str) -> PoolRow:
    found = pool_read(policy, limit)
    assert found is not None
    return found


def used(tenant: str, own: int, lent: int = 0, refused: int = 0, ago: timedelta = JUST) -> None:
    counted(tenant, "a", own, ago=ago)
    if lent:
        counted(tenant, "l", lent, limit="cards", ago=ago)
    if refused:
        counted(tenant, "d", refused, limit="charge", ago=ago)


@pytest.fixture
def cards(valkey: object) -> PoolRow:
    make_pool_world()
    return pool_of("everyone-charge", "cards")


class TestASharedPool:
    def test_what_members_use_and_borrow_now(self, cards: PoolRow) -> None:
        used("kite", 1800, 960)
        used("lagoon", 540, refused=7)
        drained()
        members = members_read(cards)
        use = use_read(cards, members)
        by_tenant = {share.tenant: use.member(share) for share in members.shares}
        assert by_tenant == {"kite": Amount(2760, 960), "lagoon": Amount(540, 0, 7), "summit": Amount()}
        assert use.now == Amount(3300, 960, 7)

    def test_requests_of_other_endpoints_and_loans_of_other_limits_do_not_count(self, cards: PoolRow) -> None:
        counted("kite", "a", 50, endpoint="payments:refund", ago=JUST)
        counted("kite", "l", 5, limit="charge", ago=JUST)
        drained()
        members = members_read(cards)
        assert use_read(cards, members).now == Amount(5, 0)

    def test_a_day_is_more_than_a_minute(self, cards: PoolRow) -> None:
        used("kite", 600, ago=timedelta(hours=3))
        used("kite", 60)
        drained()
        members = members_read(cards)
        use = use_read(cards, members)
        [kite] = [share for share in members.shares if share.tenant == "kite"]
        assert (use.member(kite).used, use.member_day(kite).used) == (60, 660)
        assert use.busiest == 600

    def test_without_any_measurement_nothing_is_said(self, cards: PoolRow) -> None:
        assert use_read(cards, members_read(cards)).measured_at is None

    def test_the_history_has_a_point_for_every_quarter_of_an_hour(self, cards: PoolRow) -> None:
        used("kite", 600, 300, ago=timedelta(hours=3))
        used("lagoon", 100, ago=timedelta(hours=3))
        drained()
        members = members_read(cards)
        history = history_read(cards, members, use_read(cards, members), timezone.now())
        kite = next(member for member in history.members if member.label == "kite")
        assert sum((point for point in kite.points), Amount()) == Amount(900, 300)
        assert sum((point for point in history.points), Amount()) == Amount(1000, 300)
        assert all(history.others(index) == Amount() for index in range(len(history.points)))

    def test_the_number_of_queries_does_not_grow_with_the_members(self, cards: PoolRow) -> None:
        drained()
        counts = []
        for _ in range(2):
            members = members_read(cards)
            with CaptureQueriesContext(connection) as queries:
                history_read(cards, members, use_read(cards, members), timezone.now())
            counts.append(len(queries))
            grow(60) if len(counts) == 1 else None
        assert counts[0] == counts[1]

    def test_causes_come_from_the_log(self, cards: PoolRow) -> None:
        denied("kite", endpoint=PAY, limit="charge", reason="limit/pool")
        causes = causes_read(cards, members_read(cards), timezone.now())
        assert (causes.read, causes.counts, causes.worst) == (1, {"pool": 1}, "pool")


class TestAPoolInsideATenant:
    def test_its_use_is_that_of_the_tenant(self, valkey: object) -> None:
        make_team_world()
        make_pool_world()  # for the endpoint
        counted("acme", "a", 60, ago=JUST)
        counted("acme", "l", 30, limit="org", ago=JUST)
        counted("bolt", "a", 999, ago=JUST)
        drained()
        pool = pool_of("plain-all", "org")
        members = tenant_members(pool, "acme")
        use = use_read(pool, members, tenant=Tenant.objects.get(name="acme").number)
        assert use.now == Amount(90, 30)
        assert use.member(members.shares[0]) == Amount(90, 30)
