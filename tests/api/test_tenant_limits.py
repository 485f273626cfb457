"""/v1/tenants/NAME/limits: what holds, and why."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from quotas.overrides import override_create
from quotas.policies.edit import policy_create
from tests.quotas.world import PAY, SAID, bucket

pytestmark = pytest.mark.usefixtures("world")


def test_each_limit_has_its_reason(client: APIClient) -> None:
    policy_create(name="acme-pay", tenant="acme", endpoint=PAY, limits=[bucket(500)], **SAID)
    policy_create(name="everyone", limits=[bucket(10**6)], force=True, **SAID)
    number = override_create(tenant="acme", multiplier=(3, 2), **SAID).pk
    answer = client.get("/v1/tenants/acme/limits").json()
    assert (answer["tier"], answer["suspended"]) == ("pro", False)
    found = {(row["limit"]["name"], row["scope"], row["is_global"]): row for row in answer["limits"]}
    assert found.keys() == {
        ("burst", "*", False),
        ("minute", "*", False),
        ("burst", PAY, False),
        ("burst", "*", True),
    }
    own = found["burst", PAY, False]
    assert (own["source"], own["limit"]["rate"]) == (f"tenant acme × {PAY}", 750)
    assert own["words"] == "750/s sustained, up to 1,500 at once, per tenant, enforced"
    assert own["overrides"] == [{"source": f"override {number}", "words": "every limit × 3/2", "until": None}]
    assert [lost["source"] for lost in own["instead_of"]] == ["tier pro × *"]
    assert found["burst", "*", True]["overrides"] == []


def test_what_is_to_come_is_told_and_can_be_asked_for(client: APIClient) -> None:
    start = timezone.now() + timedelta(days=1)
    number = override_create(tenant="bolt", limits={"burst": {"rate": 99}}, start=start, **SAID).pk
    today = client.get("/v1/tenants/bolt/limits").json()
    assert ([row["id"] for row in today["upcoming"]], today["limits"][0]["limit"]["rate"]) == ([number], 10)
    later = client.get("/v1/tenants/bolt/limits", {"at": (start + timedelta(hours=1)).isoformat()}).json()
    assert (later["upcoming"], later["limits"][0]["limit"]["rate"]) == ([], 99)
    assert client.get("/v1/tenants/nobody/limits").status_code == 404
