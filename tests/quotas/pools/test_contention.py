"""A pool is contended while it denies requests that it could not lend to, minute after minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction
from pytest_django import DjangoAssertNumQueries

from quotas.models import LimitName
from quotas.policies.edit import policy_update
from quotas.policies.spec import to_us
from quotas.pools.contention import contended_read
from quotas.status.metrics_collector import contention
from quotas.usage.batch_format import DenialRecord
from quotas.usage.rollups import add_denials
from tenants.models import Tenant
from tests.quotas.world import FORCED, make_world

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


def deny(reason: str, at: datetime, limit: str = "key") -> None:
    tenant = Tenant.objects.get(name="acme").number
    number = LimitName.objects.get(name=limit).number
    with transaction.atomic():
        add_denials([DenialRecord(tenant, 1, to_us(at), number, reason, 1, 1, 1, b"")], at)


def found(now: datetime = NOW) -> list[tuple[str, int]]:
    return [(each.pool, each.seconds) for each in contended_read(now, HOUR)]


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


def test_without_pools_denials_are_not_read(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(1):
        assert found() == []


def test_prometheus_is_told_how_long() -> None:
    share_a_pool()
    deny("limit/pool", NOW - MINUTE)
    (sample,) = contention(NOW).samples
    assert (sample.labels, sample.value) == ({"pool": "org"}, 60)
