"""From the limiter's decisions to the rollups: every decision is counted as what it was."""

from __future__ import annotations

from collections import Counter

import pytest
import redis
from django.core.management import call_command
from django.db.models import Sum

from headroom_edge import Decision, Limiter
from quotas.models import Endpoint, LimitName
from quotas.models.usage import LET_THROUGH, Denial, Outcome, UsageMinute
from quotas.policies.edit import policy_create
from quotas.tenants import NewTenant, tenant_suspend, tenants_create
from quotas.usage.drain import drain
from quotas.usage.fold import fold_all
from quotas.usage.rollups import subject_hash
from tenants.keyring import SUBJECTS, read_keys
from tenants.models import Tenant
from tests.quotas.world import FORCED, GET, PAY, SAID, bucket, make_world

pytestmark = pytest.mark.django_db(transaction=True)

LETTERS = {"ok": "a", "limit": "d", "cost_too_big": "z", "suspended": "p", "unknown_tenant": "u"}
KEY = "key-of-somebody"


@pytest.fixture
def decisions(valkey: redis.Redis, valkey_url: str) -> list[Decision]:
    make_world()
    policy_create(name="bolts", tenant="bolt", limits=[bucket(10, "units", unit="cost")], **FORCED)
    tenants_create(tenants=[NewTenant("early", "free")], **SAID)
    tenant_suspend(name="early", **SAID)
    call_command("publish", verbosity=0)
    asked = [
        *[("bolt", GET, 1)] * 40,
        *[("bolt", PAY, 1)] * 5,
        ("bolt", GET, 20_000),
        *[("acme", PAY, 7)] * 6,
        *[("early", GET, 1)] * 3,
        *[("nobody", GET, 1)] * 2,
        *[("acme", "not:registered", 2)] * 4,
    ]
    with Limiter.from_url(valkey_url, fail="closed", budget_ms=60_000) as limiter:
        return [limiter.check(tenant=t, endpoint=e, cost=c, subject={"key": KEY}) for t, e, c in asked]


def test_every_decision_is_counted_by_tenant_endpoint_and_outcome(
    valkey: redis.Redis, decisions: list[Decision]
) -> None:
    drain(valkey)
    fold_all()
    tenants = dict(Tenant.objects.values_list("name", "number"))
    endpoints = dict(Endpoint.objects.values_list("name", "number"))
    expected: Counter[tuple[int, int, str]] = Counter()
    for decision in decisions:
        tenant = tenants.get(decision.check.tenant, 0)
        letter = LETTERS[decision.reason]
        endpoint = 0 if letter in "pu" else endpoints.get(decision.check.endpoint, 0)
        expected[tenant, endpoint, letter] += 1
    names = ("tenant_number", "endpoint_number", "outcome")
    rows = UsageMinute.objects.values_list(*names).annotate(total=Sum("count")).order_by()
    assert {row[:3]: row[3] for row in rows} == expected
    assert {letter for _, _, letter in expected} == set(LETTERS.values())


def test_cost_is_counted_with_the_requests(valkey: redis.Redis, decisions: list[Decision]) -> None:
    drain(valkey)
    fold_all()
    allowed = sum(decision.check.cost or 0 for decision in decisions if decision.allowed)
    rows = UsageMinute.objects.filter(outcome__in=LET_THROUGH)
    assert rows.aggregate(total=Sum("cost"))["total"] == allowed


def test_denials_say_which_limit_and_when_to_try_again(valkey: redis.Redis, decisions: list[Decision]) -> None:
    drain(valkey)
    fold_all()
    limits = dict(LimitName.objects.values_list("name", "number"))
    denied = [decision for decision in decisions if decision.reason in {"limit", "cost_too_big"}]
    rows = list(Denial.objects.order_by("at"))
    assert [row.limit_number for row in rows] == [limits[decision.limit] for decision in denied]
    assert [row.retry_us for row in rows] == [decision.retry_us for decision in denied]
    assert {row.revision for row in rows} == {decisions[0].revision}
    (key,) = read_keys(SUBJECTS).newest_first
    assert {bytes(row.subject) for row in rows} <= {b"", subject_hash(KEY.encode(), key)}
    counted = UsageMinute.objects.filter(outcome__in=[Outcome.DENIED, Outcome.TOO_BIG]).values_list("limit_number")
    assert {number for (number,) in counted} == {row.limit_number for row in rows}
