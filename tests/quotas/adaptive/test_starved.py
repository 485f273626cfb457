"""The budget of tenants whose live values are read is shared by all limits, and what is asked stays small."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from quotas.adaptive import limits
from quotas.adaptive.queries import AdaptiveLimit, _low_since
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
def test_the_time_at_the_floor_takes_two_queries_however_long_it_is(broken: int | None, since: int | None) -> None:
    minutes = range(601)
    AdaptiveReading.objects.bulk_create(
        AdaptiveReading(
            at=NOW - timedelta(minutes=ago),
            kind=CONCURRENCY,
            policy="p",
            limit_name="backend",
            endpoint_number=0,
            tenant_number=7,
            value=9 if ago == broken else 5,
            least=5,
            most=200,
            reason="",
        )
        for ago in minutes
    )
    limit = AdaptiveLimit("p", "backend", "*", "acme", CONCURRENCY, 5, 5, 200, "", NOW, tenant_number=7)
    with CaptureQueriesContext(connection) as queries:
        found = _low_since(limit, NOW)
    assert found == (None if since is None else NOW - timedelta(minutes=since))
    assert len(queries) == 2
    assert all("LIMIT 1" in query["sql"] for query in queries)
