"""Which revision set the limit that denied a request, and what it denied since."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from quotas.endpoints import endpoint_update
from quotas.models import Endpoint, LimitName, Revision
from quotas.models.usage import DrainState
from quotas.overrides import override_create
from quotas.policies.edit import limit_set, policy_create
from quotas.policies.spec import to_us
from quotas.tenants import tenant_move, tenant_update
from quotas.usage.queries.denial_causes import throttled_read
from quotas.usage.queries.denial_log import DenialFilter, denials_read, limits_set_by
from quotas.usage.queries.limit_changes import LimitPlace, change_at, limit_changes_read
from quotas.usage.queries.periods import period_read
from tenants.models import Tenant
from tests.dashboards.world import counted, denied, drained
from tests.quotas.world import FORCED, PAY, SAID, bucket, make_world, newest

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def world() -> None:
    make_world()
    publish(timezone.now() - 5 * HOUR)


def publish(at: datetime) -> int:
    Revision.objects.filter(published_us=None).update(published_us=to_us(at))
    return newest().number


def place(tenant: str = "acme", limit: str = "burst") -> LimitPlace:
    number = LimitName.objects.get(name=limit).number
    return LimitPlace(Tenant.objects.get(name=tenant).number, Endpoint.objects.get(name=PAY).number, number)


def revisions(tenant: str = "acme", limit: str = "burst") -> list[int]:
    at = place(tenant, limit)
    return [change.revision for change in limit_changes_read([at]).get(at, ())]


def test_only_revisions_that_changed_this_limit_of_this_tenant_count() -> None:
    first = revisions()
    limit_set(policy="free-all", limit=bucket(7), **FORCED)
    publish(timezone.now())
    limit_set(policy="pro-all", limit=bucket(900, "minute", per="1m"), **FORCED)
    publish(timezone.now())
    tenant_update(name="acme", label="Acme & Sons", **SAID)
    endpoint_update(name=PAY, default_cost=3, **SAID)
    publish(timezone.now())
    assert revisions() == first
    limit_set(policy="pro-all", limit=bucket(60), **FORCED)
    edited = publish(timezone.now())
    assert revisions() == [edited, *first]


def test_overrides_moves_and_policies_of_its_own_count() -> None:
    override_create(tenant="acme", limits={"burst": {"rate": 900}}, **SAID)
    given = publish(timezone.now())
    assert revisions()[0] == given
    assert given not in revisions(limit="minute")
    tenant_move(name="bolt", tier="pro", **FORCED)
    moved = publish(timezone.now())
    assert revisions("bolt")[0] == moved
    policy_create(name="acme-pay", tenant="acme", endpoint=PAY, limits=[bucket(5)], **FORCED)
    own = publish(timezone.now())
    assert revisions()[0] == own


def test_a_denial_names_the_revision_that_had_set_its_limit() -> None:
    limit_set(policy="pro-all", limit=bucket(60), **FORCED)
    tightened = publish(timezone.now() - HOUR)
    tenant_update(name="bolt", label="Bolt", **SAID)
    publish(timezone.now() - HOUR / 2)
    denied("acme")
    [row] = denials_read(DenialFilter()).denials
    assert limits_set_by([row]) == [tightened]
    changes = limit_changes_read([row.place])[row.place]
    assert change_at(changes, timezone.now() - 2 * HOUR) == changes[-1]
    assert change_at(changes, timezone.now() - 9 * HOUR) is None


def test_after_a_cure_nothing_is_denied_and_it_says_since_when() -> None:
    now = timezone.now()
    counted("acme", "a", 60, ago=timedelta(minutes=10))
    counted("acme", "d", 40, limit="burst", ago=timedelta(minutes=10))
    drained()
    period = period_read("1h", "", "", now)
    assert throttled_read(period)[0].since_change is None
    limit_set(policy="pro-all", limit=bucket(500), **SAID)
    cured = publish(now - timedelta(minutes=2))
    [row] = throttled_read(period)
    assert row.since_change is not None
    assert (row.since_change.change.revision, row.since_change.denied, row.is_calm) == (cured, 0, True)
    counted("acme", "d", 3, limit="burst", ago=timedelta(seconds=60))
    [row] = throttled_read(period)
    assert row.since_change is not None
    assert (row.since_change.denied, row.is_calm) == (3, False)


def test_nothing_is_said_of_a_change_that_is_not_measured_yet() -> None:
    now = timezone.now()
    counted("acme", "d", 40, limit="burst", ago=timedelta(minutes=10))
    DrainState.objects.update_or_create(id=1, defaults={"drained_at": now - timedelta(minutes=3), "run_id": "x"})
    limit_set(policy="pro-all", limit=bucket(500), **SAID)
    publish(now - timedelta(minutes=2))
    [row] = throttled_read(period_read("1h", "", "", now))
    assert row.since_change is not None
    assert not row.is_calm
