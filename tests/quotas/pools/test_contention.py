"""A pool is contended while it denies requests that it could not lend to, minute after minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction
from pytest_django import DjangoAssertNumQueries

from quotas.models import Endpoint, LimitName
from quotas.policies.edit import policy_create, policy_update
from quotas.policies.spec import to_us
from quotas.pools.contention import contended_read
from quotas.status.metrics_collector import contention
from quotas.usage.batch_format import DenialRecord
from quotas.usage.rollups import add_denials
from tenants.models import Tenant
from tests.quotas.world import FORCED, GET, PAY, make_world

pytestmark = pytest.mark.django_db

NOW = datetime(2031, 3, 5, 14, 30, 31, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
SHARED = [
    {"name": "org", "algorithm": "pool", "rate": 1_000, "burst": 250},
    {"name": "team", "algorithm": "borrowing", "assured": 40, "parent": "org", "subject": "team"},
    {"name": "key", "algorithm": "borrowing", "assured": 4, "parent": "team", "subject": "team+key"},
]


@pytest.fixture(autouse=True)
def _world() -> None:
    make_world()


def share_a_pool() -> None:
    policy_update(name="pro-all", limits=SHARED, **FORCED)


def deny(reason: str, at: datetime, limit: str = "key", tenant: str = "acme", endpoint: str = PAY) -> None:
    who, where = Tenant.objects.get(name=tenant).number, Endpoint.objects.get(name=endpoint).number
    number = LimitName.objects.get(name=limit).number
    with transaction.atomic():
        add_denials([DenialRecord(who, where, to_us(at), number, reason, 1, 1, 1, b"")], at)


def found(now: datetime = NOW) -> list[tuple[str, int]]:
    return [(each.limit, each.seconds) for each in contended_read(now, HOUR)]


def pools(now: datetime = NOW) -> list[tuple[str, int]]:
    return [(str(each), each.seconds) for each in contended_read(now, HOUR)]


def test_minutes_without_a_break_count() -> None:
    share_a_pool()
    for minute in (1, 2, 3, 5):
        deny("limit/pool", NOW - minute * MINUTE)
    assert found() == [("org", 180)]


def test_the_pool_is_found_over_two_levels_and_a_share_counts_as_well() -> None:
    share_a_pool()
    deny("limit/share", NOW - MINUTE)
    deny("limit/pool", NOW - 2 * MINUTE, "team")
    deny("limit/pool", NOW - 3 * MINUTE, "org")
    assert found() == [("org", 180)]


@pytest.mark.parametrize("reason", ["limit/ceiling", "limit", "cost_too_big"])
def test_other_denials_do_not_contend(reason: str) -> None:
    share_a_pool()
    deny(reason, NOW - MINUTE)
    assert found() == []


def test_it_is_over_with_the_first_quiet_minute() -> None:
    share_a_pool()
    deny("limit/pool", NOW - 2 * MINUTE)
    assert found() == []
    assert found(NOW - MINUTE) == [("org", 60)]


def test_pools_of_the_same_name_in_two_tiers_are_told_apart() -> None:
    share_a_pool()
    policy_update(name="free-all", limits=SHARED, **FORCED)
    deny("limit/pool", NOW - MINUTE)
    deny("limit/pool", NOW - 2 * MINUTE, tenant="bolt")
    assert pools() == [("pro-all/org", 60)]


def test_a_pool_of_a_tenant_or_an_endpoint_stands_before_that_of_its_tier() -> None:
    share_a_pool()
    policy_create(name="pro-pay", tier="pro", endpoint=PAY, limits=SHARED, **FORCED)
    deny("limit/pool", NOW - MINUTE)
    deny("limit/pool", NOW - MINUTE, endpoint=GET)
    assert pools() == [("pro-all/org", 60), ("pro-pay/org", 60)]
    policy_create(name="acme-all", tenant="acme", limits=SHARED, **FORCED)
    assert pools() == [("acme-all/org", 60)]


def test_members_with_a_share_of_their_own_count_for_the_pool_of_everyone() -> None:
    policy_create(name="org", limits=[SHARED[0]], **FORCED)
    policy_create(name="own", tenant="acme", limits=[SHARED[1]], **FORCED)
    deny("limit/pool", NOW - MINUTE, "team")
    assert pools() == [("org/org", 60)]


def test_without_pools_denials_are_not_read(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(1):
        assert found() == []


def test_prometheus_is_told_how_long() -> None:
    share_a_pool()
    deny("limit/pool", NOW - MINUTE)
    (sample,) = contention(NOW).samples
    assert (sample.labels, sample.value) == ({"policy": "pro-all", "pool": "org"}, 60)
