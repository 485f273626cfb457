"""`manage.py seed`: an empty installation gets a platform with a past, a used one is left alone."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
import redis
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from headroom_edge.algorithms import ALGORITHMS
from quotas.demo.tenants import TENANTS
from quotas.models import CalendarCounter, Change, Denial, Limit, Override, Revision, Task
from quotas.models.tenant_summary import TenantSummary, TenantSummaryRun
from quotas.models.usage import ROLLUPS, DrainState, GapRecord, Outcome, UsageHour, UsageStep
from quotas.policies.explain import explain
from quotas.tenants import tier_create
from tenants.models import ApiKey, Tenant

pytestmark = pytest.mark.django_db(transaction=True)


def seed(*options: str, hours: float = 2) -> str:
    out = StringIO()
    call_command("seed", *options, hours=hours, stdout=out)
    return out.getvalue()


def test_an_empty_installation_gets_a_platform_with_a_past(valkey: redis.Redis, settings: Any) -> None:
    """One world, looked at from all sides: to make it takes seconds. Where four eyes are wanted it waits for nobody."""
    settings.HEADROOM_FOUR_EYES = True
    assert "seeded 40 tenants" in seed(hours=2)
    every_algorithm_stands_where_it_suits()
    the_changes_lie_in_the_past_in_their_order()
    what_was_written_then_is_as_unchangeable_as_ever()
    there_is_an_override_about_to_end_a_policy_of_a_tenant_and_a_suspension()
    every_rollup_tells_the_same_story()
    a_denial_of_yesterday_can_be_explained_and_a_quota_is_partly_used()
    the_list_of_tenants_has_its_figures_at_once()
    twice_is_once()


def test_an_installation_in_use_is_left_alone(valkey: redis.Redis) -> None:
    tier_create(name="ours", author="alice", reason="to begin with")
    assert "nothing was seeded" in seed()
    assert Tenant.objects.count() == 0
    assert UsageHour.objects.count() == 0


def the_list_of_tenants_has_its_figures_at_once() -> None:
    assert TenantSummary.objects.filter(asked__gt=0).count() > 10
    assert TenantSummaryRun.objects.exists()


def every_algorithm_stands_where_it_suits() -> None:
    assert set(Limit.objects.values_list("algorithm", flat=True)) == set(ALGORITHMS)
    assert Tenant.objects.count() == len(TENANTS) == ApiKey.objects.filter(label="first key").count()


def the_changes_lie_in_the_past_in_their_order() -> None:
    created = list(Revision.objects.order_by("number").values_list("created", flat=True))
    assert created == sorted(created)
    assert created[0] < timezone.now() - timedelta(days=14)
    assert created[-1] < timezone.now() - timedelta(hours=10)
    assert not Revision.objects.filter(published_us=None).exists()
    assert set(Revision.objects.values_list("author", flat=True)) == {"pipeline", "operator", "on-call"}


def what_was_written_then_is_as_unchangeable_as_ever() -> None:
    with pytest.raises(DatabaseError), transaction.atomic():
        Revision.objects.filter(number=1).update(reason="another")
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE quotas_limitevent SET pgh_created_at = now()")


def there_is_an_override_about_to_end_a_policy_of_a_tenant_and_a_suspension() -> None:
    burst = {e.effective.limit.name: e for e in explain(tenant="harbor-taxi", endpoint="rider:track").limits}["burst"]
    assert burst.effective.source == "tenant harbor-taxi × rider:track"
    assert [lost.source for lost in burst.lost] == ["tier pro × *"]
    assert explain(tenant="fleetly", endpoint="rider:track").limits[0].overrides
    assert explain(tenant="early-bird", endpoint="rider:track").is_suspended
    assert Override.objects.filter(end__lt=timezone.now() + timedelta(hours=4)).count() == 1
    assert set(Change.objects.values_list("state", flat=True)) == {"shadow", "scheduled"}


def every_rollup_tells_the_same_story() -> None:
    sums = {model: sum(model._default_manager.values_list("count", flat=True)) for model in ROLLUPS}
    assert len(set(sums.values())) == 1
    assert sums[UsageHour] > 10_000
    outcomes = set(UsageHour.objects.values_list("outcome", flat=True))
    assert {Outcome.ALLOWED, Outcome.DENIED, Outcome.SUSPENDED, Outcome.UNKNOWN, Outcome.SHADOW_DENIES} <= outcomes
    turned_away = UsageHour.objects.filter(outcome__in=[Outcome.SUSPENDED, Outcome.UNKNOWN])
    assert set(turned_away.values_list("endpoint_number", flat=True)) == {0}
    newest = UsageStep.objects.order_by("-start")[0].start
    assert timedelta(0) < timezone.now() - newest < timedelta(hours=1)
    assert DrainState.objects.get().drained_at == newest + UsageStep.step
    assert [gap.before_all for gap in GapRecord.objects.all()] == [True]


def a_denial_of_yesterday_can_be_explained_and_a_quota_is_partly_used() -> None:
    assert Denial.objects.filter(tenant_number=Tenant.objects.get(name="delta-shuttle").pk).exists()
    assert CalendarCounter.objects.filter(used__gt=0).count() > 30
    assert Task.objects.get().kind == Task.Kind.CALIBRATE


def twice_is_once() -> None:
    revisions, rows = Revision.objects.count(), UsageHour.objects.count()
    assert "nothing was seeded" in seed()
    assert (Revision.objects.count(), UsageHour.objects.count()) == (revisions, rows)
