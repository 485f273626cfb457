"""A limit over time: a step for each change, and nothing over the time before the first."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from quotas.models import Override, Revision
from quotas.overrides import override_create
from quotas.policies.edit import limit_set
from quotas.policies.explain import standing
from quotas.policies.limit_history import LimitStep, limit_steps
from quotas.policies.limit_words import limit_short
from quotas.policies.spec import to_us
from tests.quotas.world import FORCED, SAID, bucket, make_world

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def publish(at: datetime) -> None:
    Revision.objects.filter(published_us=None).update(published_us=to_us(at))


def steps(name: str = "burst") -> list[LimitStep]:
    limits = [each.effective.limit for each in standing(tenant="acme").limits]
    return limit_steps(next(limit for limit in limits if limit.name == name))


def test_each_edit_and_each_end_of_an_override_is_a_step() -> None:
    make_world()
    now = timezone.now()
    publish(now - 9 * HOUR)
    limit_set(policy="pro-all", limit=bucket(50), **FORCED)
    publish(now - 6 * HOUR)
    override_create(tenant="acme", limits={"burst": {"rate": 80}}, **SAID)
    publish(now - 4 * HOUR)
    Override.objects.update(start=now - 4 * HOUR, end=now - 2 * HOUR)
    found = steps()
    assert [str(limit_short(step.algorithm)) for step in found] == [
        "100/s burst 200",
        "50/s burst 100",
        "80/s burst 100",
        "50/s burst 100",
    ]
    assert [round((now - step.since) / HOUR) for step in found] == [9, 6, 4, 2]
    assert [step.until for step in found] == [*(step.since for step in found[1:]), None]


def test_a_step_is_cut_to_the_time_that_is_asked_for() -> None:
    make_world()
    now = timezone.now()
    publish(now - 2 * HOUR)
    [step] = steps()
    assert step.within(now - HOUR, now) == (now - HOUR, now)
    assert step.within(now - 9 * HOUR, now) == (step.since, now)
    assert step.within(now - 9 * HOUR, now - 3 * HOUR) is None
