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

from quotas.algorithms import ALGORITHMS
from quotas.demo.tenants import TENANTS
from quotas.models import Change, Limit, Override, Revision
from quotas.models.usage import ROLLUPS, DrainState, GapRecord, Outcome, UsageHour, UsageStep
from quotas.selectors.explanation import explain
from quotas.services.tenants import tier_create
from tenants.models import ApiKey, Tenant

pytestmark = pytest.mark.django_db(transaction=True)


def seed() -> str:
    out = StringIO()
    call_command("seed", hours=2, stdout=out)
    return out.getvalue()


@pytest.fixture
def seeded(valkey: redis.Redis) -> None:
    assert "seeded 40 tenants" in seed()


def test_every_algorithm_stands_where_it_suits(seeded: None) -> None:
    assert set(Limit.objects.values_list("algorithm", flat=True)) == set(ALGORITHMS)
    assert Tenant.objects.count() == len(TENANTS) == ApiKey.objects.count()


def test_the_changes_lie_in_the_past_in_their_order(seeded: None) -> None:
    created = list(Revision.objects.order_by("number").values_list("created", flat=True))
    assert created == sorted(created)
    assert created[0] < timezone.now() - timedelta(days=14)
    assert created[-1] < timezone.now() - timedelta(hours=10)
    assert not Revision.objects.filter(published_us=None).exists()
    assert set(Revision.objects.values_list("author", flat=True)) == {"pipeline", "operator", "on-call"}


def test_what_was_written_then_is_as_unchangeable_as_ever(seeded: None) -> None:
    with pytest.raises(DatabaseError), transaction.atomic():
        Revision.objects.filter(number=1).update(reason="another")
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE quotas_limitevent SET pgh_created_at = now()")


def test_there_is_a_policy_of_a_tenant_an_override_about_to_end_and_a_suspension(seeded: None) -> None:
    burst = {e.effective.limit.name: e for e in explain(tenant="harbor-taxi", endpoint="rider:track").limits}["burst"]
    assert burst.effective.source == "tenant harbor-taxi × *"
    assert [lost.source for lost in burst.lost] == ["tier pro × *"]
    assert explain(tenant="fleetly", endpoint="rider:track").limits[0].overrides
    assert explain(tenant="early-bird", endpoint="rider:track").is_suspended
    assert Override.objects.filter(end__lt=timezone.now() + timedelta(hours=4)).count() == 1
    assert set(Change.objects.values_list("state", flat=True)) == {"shadow", "scheduled"}


def test_every_rollup_tells_the_same_story(seeded: None) -> None:
    now = timezone.now()
    sums = {model: sum(model._default_manager.values_list("count", flat=True)) for model in ROLLUPS}
    assert len(set(sums.values())) == 1
    assert sums[UsageHour] > 10_000
    outcomes = set(UsageHour.objects.values_list("outcome", flat=True))
    assert {Outcome.ALLOWED, Outcome.DENIED, Outcome.SUSPENDED, Outcome.UNKNOWN, Outcome.SHADOW_DENIES} <= outcomes
    newest = UsageStep.objects.order_by("-start")[0].start
    assert timedelta(0) < now - newest < timedelta(minutes=2)
    assert DrainState.objects.get().drained_at == newest + UsageStep.step
    assert [gap.before_all for gap in GapRecord.objects.all()] == [True]


def test_twice_is_once(seeded: None) -> None:
    revisions, rows = Revision.objects.count(), UsageHour.objects.count()
    assert "nothing was seeded" in seed()
    assert (Revision.objects.count(), UsageHour.objects.count()) == (revisions, rows)


def test_an_installation_in_use_is_left_alone(valkey: redis.Redis) -> None:
    tier_create(name="ours", author="alice", reason="to begin with")
    assert "nothing was seeded" in seed()
    assert Tenant.objects.count() == 0
    assert UsageHour.objects.count() == 0


def test_where_four_eyes_are_wanted_it_waits_for_nobody(valkey: redis.Redis, settings: Any) -> None:
    settings.HEADROOM_FOUR_EYES = True
    assert "seeded" in seed()
