"""A limit on all endpoints of one service: read at one of them, and shown at all of them and nowhere else."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from django.utils import timezone

from quotas.adaptive.queries import adaptive_limits, limits_at_floor
from quotas.adaptive.readings import readings_take
from quotas.models import AdaptiveReading, Endpoint
from quotas.policies.edit import policy_create
from tests.quotas.publishing.worlds import publisher_for
from tests.quotas.world import FORCED, GET, PAY

NOW = timezone.now()
# The endpoints of the world are payments:charge, which comes first, and rides:get.
SLOTS = {"name": "slots", "algorithm": "adaptive_concurrency", "min": 4, "max": 64, "start": 16, "target": "80ms"}


@pytest.fixture
def policy(world: None) -> None:
    policy_create(name="all-rides", endpoint="rides:*", limits=[{**SLOTS, "hold": "10s"}], **FORCED)


def publish(url: str, settings: Any) -> None:
    settings.REDIS_URL = url
    publisher_for(redis.Redis.from_url(url, decode_responses=True)).publish()


def at(name: str) -> Endpoint:
    return Endpoint.objects.get(name=name)


@pytest.mark.usefixtures("policy", "valkey")
def test_its_live_value_is_read_and_shown_at_endpoints_of_the_service_only(valkey_url: str, settings: Any) -> None:
    publish(valkey_url, settings)
    assert readings_take(NOW) == 1
    (found,) = adaptive_limits(NOW, endpoint=at(GET))
    assert (found.limit, found.value, found.endpoint) == ("slots", 16, "rides:*")
    assert adaptive_limits(NOW, endpoint=at(PAY)) == []


@pytest.mark.usefixtures("policy", "valkey")
def test_a_service_without_an_endpoint_in_use_is_not_read(valkey_url: str, settings: Any) -> None:
    publish(valkey_url, settings)
    Endpoint.objects.filter(name=GET).update(retired=True)
    assert readings_take(NOW) == 0


def reading(when: datetime) -> None:
    AdaptiveReading.objects.create(
        at=when,
        kind="concurrency",
        policy="all-rides",
        limit_name="slots",
        endpoint_number=0,
        tenant_number=0,
        value=4,
        least=4,
        most=64,
        reason="",
    )


@pytest.mark.usefixtures("policy")
def test_it_can_be_at_its_floor() -> None:
    for minute in range(12):
        reading(NOW - timedelta(minutes=minute))
    (found,) = limits_at_floor(NOW, timedelta(minutes=10))
    assert found.limit.endpoint == "rides:*"
