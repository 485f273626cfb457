"""The budget of tenants whose live values are read is shared by all limits, and what is asked stays small."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from quotas.adaptive import limits
from quotas.adaptive.queries import Series, _low_since, limits_at_floor
from quotas.errors import accepted
from quotas.models import AdaptiveReading, TenantSummary
from quotas.models.adaptive import CONCURRENCY
from quotas.policies.apply import document_apply
from quotas.policies.document import read_document
from quotas.tenants import NewTenant, tenants_create
from tests.quotas.world import SAID

pytestmark = pytest.mark.django_db

TIERS = 8
NOW = timezone.now()
LIMIT = "{name: backend, algorithm: adaptive_concurrency, min: 5, max: 200, target: 80ms, hold: 10s}"


@pytest.fixture
def tiers(valkey: object) -> None:
    """Each tier has such a limit and 20 tenants, the last of which is the busiest."""
    names = ", ".join(f"{{name: t{n}}}" for n in range(TIERS))
    policies = "\n".join(
        f"  - {{name: p{n}, tier: t{n}, endpoint: 'rides:search', limits: [{LIMIT}]}}" for n in range(TIERS)
    )
    endpoint = "{name: 'rides:search', method: GET, path: /v1/s}"
    text = f"tiers: [{names}]\nendpoints: [{endpoint}]\npolicies:\n{policies}\n"
    document_apply(document=accepted(read_document(text)), **SAID)
    tenants_create(tenants=[NewTenant(f"x{n}-{k}", f"t{n}") for n in range(TIERS) for k in range(20)], **SAID)
    TenantSummary.objects.filter(tenant__name__endswith="-19").update(asked=1_000)


@pytest.mark.usefixtures("tiers")
def test_every_limit_is_read_with_its_busiest_tenant_first() -> None:
    rows = limits.adapting_rows()
    with CaptureQueriesContext(connection) as queries:
        asked = limits._asked(rows)
    assert len(queries) == 3
    assert len(asked) == limits.MOST_TENANTS
    assert {(row.policy.name, tenant.name) for row, tenant, _ in asked[:TIERS]} == {
        (f"p{n}", f"x{n}-19") for n in range(TIERS)
    }
    read = Counter(row.policy.name for row, _, _ in asked)
    assert max(read.values()) - min(read.values()) <= 1


@pytest.mark.usefixtures("tiers")
def test_as_many_limits_as_there_are_tenants_to_ask_are_all_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_TENANTS", TIERS)
    assert {row.policy.name for row, _, _ in limits._asked(limits.adapting_rows())} == {f"p{n}" for n in range(TIERS)}


@pytest.mark.parametrize(("broken", "since"), [(None, 600), (600, 599), (30, 29), (0, None)])
def test_the_time_at_the_floor_takes_two_queries_however_long_it_is_and_of_however_many(
    broken: int | None, since: int | None
) -> None:
    wanted = [Series("p", "backend", tenant) for tenant in range(20)]
    for series in wanted:
        AdaptiveReading.objects.bulk_create(
            reading(series, ago, 9 if ago == broken else 5) for ago in range(601 if series.tenant_number < 2 else 1)
        )
    with CaptureQueriesContext(connection) as queries:
        found = _low_since(wanted, NOW)
    assert [found.get(series) for series in wanted[:2]] == 2 * [since and NOW - timedelta(minutes=since)]
    assert len(queries) == 2


@pytest.mark.usefixtures("tiers")
def test_a_limit_that_was_low_only_for_a_moment_takes_no_place_of_one_that_was_so_for_long() -> None:
    AdaptiveReading.objects.bulk_create(
        reading(Series("p0", "backend", 0), ago, 5 if ago == 0 else 9) for ago in range(20)
    )
    AdaptiveReading.objects.bulk_create(reading(Series("p1", "backend", 0), ago, 5) for ago in range(20))
    (found,) = limits_at_floor(NOW, timedelta(minutes=10), 1)
    assert found.limit.policy == "p1"


def reading(series: Series, minutes_ago: int, value: int) -> AdaptiveReading:
    return AdaptiveReading(
        at=NOW - timedelta(minutes=minutes_ago),
        kind=CONCURRENCY,
        policy=series.policy,
        limit_name=series.limit,
        endpoint_number=0,
        tenant_number=series.tenant_number,
        value=value,
        least=5,
        most=200,
        reason="",
    )
