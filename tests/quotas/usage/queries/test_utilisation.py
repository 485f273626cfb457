"""What was used of calendar quotas is found under the names that limits have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headroom_edge import keys
from quotas.models import CalendarCounter, Endpoint
from quotas.usage.queries.utilisation import counters_read

pytestmark = pytest.mark.django_db
NOW = datetime(2031, 3, 5, tzinfo=UTC)


def test_a_quota_on_one_endpoint_is_found_by_the_endpoints_name() -> None:
    Endpoint.objects.create(number=37, name="rides:get", method="GET", path="/rides")
    scopes = {"": 5, keys.endpoint_number(37): 7, keys.endpoint_number(99): 9}  # there is no endpoint 99 any more
    CalendarCounter.objects.bulk_create(
        CalendarCounter(
            shard=1, tenant_number=1, scope=scope, subject=b"", limit_number=3, generation=1, period_start=NOW,
            used=used, expires_at=NOW + timedelta(days=1), drained_at=NOW,
        )
        for scope, used in scopes.items()
    )  # fmt: skip
    assert counters_read(1, {3: "monthly"}, NOW) == {("*", "monthly"): 5, ("rides:get", "monthly"): 7}
    assert counters_read(1, {3: "monthly"}, NOW + timedelta(days=2)) == {}
