"""What somebody sees who opens the demo for the first time."""

from __future__ import annotations

import pytest
import redis
from django.core.management import call_command

from quotas.models import Recommendation
from quotas.models.recommendation import Kind
from quotas.status.summary import WAITING


@pytest.mark.faults_long
@pytest.mark.timeout(900)
@pytest.mark.django_db(transaction=True)
def test_two_recommendations_wait_both_for_the_tenant_that_is_throttled(valkey: redis.Redis) -> None:
    """It takes the whole of the two weeks to make them, so it is no test for every day."""
    call_command("seed", verbosity=0)
    call_command("calibrate", verbosity=0)
    found = Recommendation.objects.filter(stage__in=WAITING).order_by("kind")
    assert [(row.kind, "delta-shuttle" in row.summary or "pro-quotes" in row.summary) for row in found] == [
        (Kind.OVERRIDE, True),
        (Kind.TIER, True),
    ]
