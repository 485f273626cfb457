"""What asks the store: explain, reset and bypass."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from django.conf import settings
from rest_framework.test import APIClient

from headroom_edge.django import limiter
from quotas.counters import counter_reset
from quotas.errors import Refused
from quotas.models import AuditEvent
from quotas.policies.edit import policy_create
from quotas.publishing import store
from quotas.publishing.publisher import Publisher
from quotas.tenants import tenant_suspend
from tests.database import kept
from tests.quotas.world import GET, PAY, SAID, bucket, make_world, newest

pytestmark = pytest.mark.usefixtures("valkey")


@pytest.fixture(autouse=True)
def published(db: None, valkey: redis.Redis) -> None:
    make_rules()
    publish()


@kept
def make_rules() -> None:
    make_world()
    policy_create(
        name="pay",
        tier="pro",
        endpoint=PAY,
        limits=[bucket(3, "pay", per="1h", burst=5, unit="cost")],
        force=True,
        **SAID,
    )
    everyones = [bucket(10**6, "burst"), bucket(9, "trial", mode="shadow")]
    policy_create(name="all", endpoint="payments:*", limits=everyones, force=True, **SAID)


def publish() -> None:
    client = store.connect(settings.REDIS_URL)
    store.prepare(client)
    Publisher(client, settings.HEADROOM_SHARDS).publish()


def spend(count: int, endpoint: str = PAY) -> bool:
    decisions = [limiter().check(tenant="acme", endpoint=endpoint, cost=1, budget_ms=60_000) for _ in range(count)]
    assert not any(decision.degraded for decision in decisions)
    return decisions[-1].allowed


def explain(client: APIClient, **asked: Any) -> dict[str, Any]:
    answer = client.post("/v1/explain", {"tenant": "acme", **asked})
    assert answer.status_code == 200, answer.json()
    found: dict[str, Any] = answer.json()
    return found


class TestExplain:
    def test_it_shows_every_rule_and_what_is_left(self, client: APIClient) -> None:
        spend(2)
        answer = explain(client, method="POST", path="/v1/charges?x=1", cost=1)
        assert (answer["endpoint"], answer["tier"], answer["decision"]["allowed"]) == (PAY, "pro", True)
        assert answer["revision"] == answer["decision"]["revision"] == newest().number
        rules = [(rule["limit"]["name"], rule["scope"], rule["is_global"]) for rule in answer["rules"]]
        assert rules == [
            ("pay", PAY, False),
            ("burst", "*", False),
            ("minute", "*", False),
            ("burst", "payments:*", True),
            ("trial", "payments:*", True),
        ]
        left = [(rule["allowed"], rule["remaining"]) for rule in answer["rules"]]
        assert left[0] == (True, 2)
        assert left[4] == (None, None)

    def test_it_consumes_nothing(self, client: APIClient) -> None:
        first = explain(client, endpoint=PAY, cost=5)
        assert explain(client, endpoint=PAY, cost=5)["rules"][0]["remaining"] == first["rules"][0]["remaining"] == 0
        assert spend(5)

    def test_it_says_what_denies_and_until_when(self, client: APIClient) -> None:
        spend(5)
        answer = explain(client, endpoint=PAY, cost=4)
        assert (answer["decision"]["reason"], answer["decision"]["limit"]) == ("limit", "pay")
        assert 0 < answer["decision"]["retry_after_ms"] <= 4 * 1_200_000
        too_big = explain(client, endpoint=PAY, cost=100)
        assert (too_big["decision"]["reason"], too_big["decision"]["retry_after_ms"]) == ("cost_too_big", None)

    def test_a_path_that_nobody_serves_has_the_limits_on_all(self, client: APIClient) -> None:
        answer = explain(client, method="GET", path="/nothing/here")
        assert (answer["endpoint"], [rule["limit"]["name"] for rule in answer["rules"]]) == ("*", ["burst", "minute"])
        assert explain(client, method="GET", path="/v1/rides/7")["endpoint"] == GET

    def test_a_suspended_tenant_is_told(self, client: APIClient) -> None:
        tenant_suspend(name="acme", **SAID)
        publish()
        answer = explain(client, endpoint=PAY)
        assert (answer["suspended"], answer["decision"]["reason"]) == (True, "suspended")

    def test_a_store_without_plans_is_no_answer(self, client: APIClient, valkey: redis.Redis) -> None:
        valkey.flushall()
        answer = client.post("/v1/explain", {"tenant": "acme", "endpoint": PAY})
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")

    @pytest.mark.parametrize(
        ("asked", "status", "field"),
        [
            ({}, 422, "path"),
            ({"endpoint": PAY, "path": "/"}, 422, "path"),
            ({"endpoint": PAY, "subject": {"IP": "1"}}, 400, "subject"),
            ({"endpoint": PAY, "cost": 0}, 400, "cost"),
            ({"endpoint": PAY, "cost": "1"}, 400, "cost"),
        ],
    )
    def test_a_wrong_question(self, client: APIClient, asked: dict[str, Any], status: int, field: str) -> None:
        answer = client.post("/v1/explain", {"tenant": "acme", **asked})
        assert (answer.status_code, answer.json()["field"]) == (status, field)


class TestReset:
    def test_it_starts_afresh_with_an_event_that_names_nobody(self, client: APIClient) -> None:
        spend(5)
        asked = {"endpoint": PAY, "limit": "pay", "subject": {"ip": "203.0.113.7"}, "reason": "our fault"}
        assert client.post("/v1/tenants/acme/reset?dry_run=true", asked).json()["tenants"]["names"] == ["acme"]
        assert not AuditEvent.objects.filter(kind="counter_reset").exists()
        assert client.post("/v1/tenants/acme/reset", asked).json() == {"count": 1}
        assert explain(client, endpoint=PAY, cost=1)["rules"][0]["remaining"] == 4
        event = AuditEvent.objects.get(kind="counter_reset")
        assert (event.detail["author"], event.detail["subject"]) == ("ann", ["ip"])
        assert "203.0.113.7" not in str(event.detail)

    def test_all_limits_on_all_endpoints(self, client: APIClient) -> None:
        spend(1, GET)
        assert client.post("/v1/tenants/acme/reset", {"reason": "x"}).json() == {"count": 2}
        assert client.post("/v1/tenants/nobody/reset", {"reason": "x"}).status_code == 404

    @pytest.mark.parametrize("name", ["holder", "a\x00b", ""])
    def test_what_cannot_be_a_subject_is_refused_and_not_noted(self, client: APIClient, name: str) -> None:
        answer = client.post("/v1/tenants/acme/reset", {"reason": "x", "subject": {name: "1"}})
        assert (answer.status_code, answer.json()["field"]) == (400, "subject")
        with pytest.raises(Refused, match="is not a valid dimension"):
            counter_reset(limiter=limiter(), tenant="acme", endpoint=PAY, limit="*", subject={name: "1"}, **SAID)
        assert not AuditEvent.objects.filter(kind="counter_reset").exists()


class TestBypass:
    def test_it_lets_everything_pass_until_it_is_cleared(self, client: APIClient) -> None:
        asked = {"scope": "tenant", "name": "acme", "duration": "30m", "reason": "3 a.m."}
        assert client.post("/v1/bypasses?dry_run=true", asked).json()["changes"][0]["object"] == "bypass:tenant:acme"
        assert client.get("/v1/bypasses").json() == {"items": []}
        made = client.post("/v1/bypasses", asked)
        assert (made.status_code, made["Location"]) == (201, "/v1/bypasses/tenant:acme")
        assert client.get("/v1/bypasses").json()["items"] == [made.json()]
        assert spend(50)
        assert client.delete("/v1/bypasses/tenant:acme?reason=over&dry_run=true").json()["tenants"]["names"] == ["acme"]
        assert client.delete("/v1/bypasses/tenant:acme?reason=over").status_code == 204
        assert not spend(50)
        assert client.delete("/v1/bypasses/tenant:acme?reason=over").status_code == 404
        kinds = AuditEvent.objects.order_by("id").values_list("kind", "detail__author", "detail__reason")
        assert list(kinds) == [("bypass_set", "ann", "3 a.m."), ("bypass_cleared", "ann", "over")]

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"name": "nobody"}, "tenant"),
            ({"scope": "all"}, "name"),
            ({"scope": "limit"}, "name"),
            ({"scope": "endpoint"}, "endpoint"),
            ({"duration": "soon"}, "duration"),
            ({"duration": "8d"}, "duration"),
        ],
    )
    def test_a_wrong_one_is_refused(self, client: APIClient, change: dict[str, str], field: str) -> None:
        asked = {"scope": "tenant", "name": "acme", "duration": "30m", "reason": "x"}
        answer = client.post("/v1/bypasses", asked | change)
        assert (answer.status_code, answer.json()["field"]) == (422, field)
        assert client.get("/v1/bypasses").json() == {"items": []}


class TestAudit:
    def test_it_lists_what_happened_newest_first(self, client: APIClient) -> None:
        client.post("/v1/tenants/acme/reset", {"reason": "one"})
        client.post("/v1/bypasses", {"scope": "all", "duration": "1m", "reason": "two"})
        assert [event["kind"] for event in client.get("/v1/audit").json()["items"]] == ["bypass_set", "counter_reset"]
        found = client.get("/v1/audit?kind=counter_reset").json()["items"]
        assert [event["detail"]["reason"] for event in found] == ["one"]
        assert client.get(f"/v1/audit?until={found[0]['at']}").json()["items"] == []
