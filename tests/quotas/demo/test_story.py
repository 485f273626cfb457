"""What somebody sees who opens the demo for the first time: every claim of the README, from the data itself."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
import redis
from django.core.management import call_command
from django.utils import timezone

from quotas.calibration.capacity import Capacity, capacity_of
from quotas.calibration.sizing import point_of
from quotas.models import AdaptiveReading, Change, Endpoint, LimitName, Override, Recommendation
from quotas.models.recommendation import Kind, Stage
from quotas.models.usage import LET_THROUGH, Outcome, UsageDay, UsageHour, UsageMinute
from quotas.policies.limit_codec import algorithm_load
from quotas.pools.demand import busiest_members, demand_proposal
from quotas.pools.queries import pool_read
from quotas.status.summary import WAITING
from quotas.usage.queries.latency import latency_samples
from tenants.models import Tenant

WEEK = timedelta(days=7)


@pytest.mark.sweep
@pytest.mark.timeout(900)
@pytest.mark.django_db(transaction=True)
def test_the_demo_tells_a_true_story(valkey: redis.Redis) -> None:
    """It takes the whole of the two weeks to tell it, so it is told once and looked at from all sides."""
    call_command("seed", verbosity=0)
    call_command("calibrate", verbosity=0)
    now = timezone.now()
    three_recommendations_wait()
    the_raise_ends_most_of_the_denials_of_several_tenants()
    the_cut_takes_what_nobody_comes_near()
    one_tenant_needs_more_than_its_tier()
    one_limit_has_too_little_data_until_a_date(now)
    one_endpoint_has_a_knee_in_its_latency(now)
    the_change_in_shadow_would_hurt_some_and_spare_others()
    partners_lend_by_day_and_night(now)
    shares_are_proposed_for_the_pool()
    one_limit_follows_its_backend_every_hour()
    tenants_can_be_told_apart(now)
    the_rollups_agree()


def three_recommendations_wait() -> None:
    found = Recommendation.objects.filter(stage__in=WAITING).order_by("policy", "kind")
    assert [(row.policy, row.limit, row.kind, row.tenant) for row in found] == [
        ("enterprise-everywhere", "burst", Kind.TIER, ""),
        ("pro-quotes", "quotes", Kind.OVERRIDE, "delta-shuttle"),
        ("pro-quotes", "quotes", Kind.TIER, ""),
    ]


def waiting(policy: str, kind: Kind) -> Recommendation:
    return Recommendation.objects.get(stage__in=WAITING, policy=policy, kind=kind)


def rates(row: Recommendation) -> tuple[float, float]:
    """Units a second, now and proposed."""
    assert row.proposed is not None
    return point_of(algorithm_load(row.current)).rate, point_of(algorithm_load(row.proposed)).rate


def the_raise_ends_most_of_the_denials_of_several_tenants() -> None:
    row = waiting("pro-quotes", Kind.TIER)
    now, then = rates(row)
    assert then > 1.3 * now
    assert row.forecast["denied_share_now"] > 0.03
    assert row.forecast["denied_share"] < row.forecast["denied_share_now"] / 5
    assert row.forecast["tenants_hit_now"] - row.forecast["tenants_hit"] >= 3


def the_cut_takes_what_nobody_comes_near() -> None:
    row = waiting("enterprise-everywhere", Kind.TIER)
    now, then = rates(row)
    assert then < now
    assert (row.forecast["tenants_hit_now"], row.forecast["tenants_hit"]) == (0, 0)
    assert row.forecast["headroom"] > 10


def one_tenant_needs_more_than_its_tier() -> None:
    row = waiting("pro-quotes", Kind.OVERRIDE)
    assert rates(row)[1] > rates(waiting("pro-quotes", Kind.TIER))[1]
    assert row.forecast["denied_share"] < row.forecast["denied_share_now"] / 2


def one_limit_has_too_little_data_until_a_date(now: datetime) -> None:
    found = Recommendation.objects.filter(stage=Stage.INSUFFICIENT).exclude(ready_at=None)
    (row,) = found
    assert row.policy == "pro-ratings"
    assert row.ready_at is not None
    assert timedelta(days=5) < row.ready_at - now < timedelta(days=12)


def one_endpoint_has_a_knee_in_its_latency(now: datetime) -> None:
    found = {row.name: capacity_of(latency_samples(row.number, now - WEEK, now)) for row in Endpoint.objects.all()}
    knees = {name: capacity for name, capacity in found.items() if isinstance(capacity, Capacity)}
    assert list(knees) == ["rider:track"]
    assert 6 <= knees["rider:track"].load <= 12
    assert knees["rider:track"].most_seen > 1.5 * knees["rider:track"].load


def the_change_in_shadow_would_hurt_some_and_spare_others() -> None:
    change = Change.objects.get(state="shadow")
    limit = LimitName.objects.get(name="smooth~candidate").number
    endpoint = Endpoint.objects.get(name="driver:location").number
    rows = UsageHour.objects.filter(endpoint_number=endpoint, start__gte=change.created)
    hurt = rows.filter(outcome=Outcome.CANDIDATE_DENIES, limit_number=limit).values_list("tenant_number", flat=True)
    pro = Tenant.objects.filter(tier__name="pro").values("number")
    asked = rows.filter(outcome__in=LET_THROUGH, tenant_number__in=pro).values_list("tenant_number", flat=True)
    assert set(hurt)
    assert set(asked) - set(hurt)


def partners_lend_by_day_and_night(now: datetime) -> None:
    """Over the last week, each is the larger borrower in the hours in which it works."""
    numbers = dict(Tenant.objects.values_list("name", "number"))
    rows = UsageHour.objects.filter(outcome=Outcome.LENT, start__gte=now - WEEK)
    borrowed: dict[tuple[int, int], int] = {}
    for tenant, start, count in rows.values_list("tenant_number", "start", "count"):
        borrowed[tenant, start.hour] = borrowed.get((tenant, start.hour), 0) + count
    asia, america = numbers["kite-mobility"], numbers["transit-union"]
    assert borrowed[asia, 4] > 10 * borrowed.get((america, 4), 0)
    assert borrowed[america, 18] > 10 * borrowed.get((asia, 18), 0)


def shares_are_proposed_for_the_pool() -> None:
    pool = pool_read("partner-pool", "partners")
    assert pool is not None
    found = demand_proposal(pool, busiest_members(pool))
    assert [one.member.tenant for one in found.members if one.proposed] == [one.member.tenant for one in found.members]
    assert found.forecast is not None
    assert found.forecast.is_unseen
    assert found.forecast.then.denied <= found.forecast.now.denied


def one_limit_follows_its_backend_every_hour() -> None:
    readings = AdaptiveReading.objects.filter(limit_name="eta-backend")
    assert {row.at.hour for row in readings if row.is_at_floor} == set(range(24))
    assert readings.order_by("-at")[0].at > timezone.now() - timedelta(hours=1)


def tenants_can_be_told_apart(now: datetime) -> None:
    found = Tenant.objects.all()
    assert all(tenant.label for tenant in found)
    assert sum(bool(tenant.tags) for tenant in found) > 10
    assert sum(bool(tenant.contacts) for tenant in found) > 10
    assert found.filter(suspended=True).count() == 1
    gone = found.exclude(archived_at=None).get()
    assert gone.archived_at is not None
    assert timedelta(days=1) < now - gone.archived_at < timedelta(days=3)
    assert not UsageHour.objects.filter(tenant_number=gone.pk, start__gt=gone.archived_at).exists()
    assert Override.objects.filter(end__lt=now + timedelta(hours=4)).count() == 1


def the_rollups_agree() -> None:
    sums = {
        model: sum(model._default_manager.values_list("count", flat=True))
        for model in (UsageMinute, UsageHour, UsageDay)
    }
    assert len(set(sums.values())) == 1
    assert sums[UsageDay] > 5_000_000
