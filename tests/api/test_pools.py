"""Pools over REST: reading them, their members and their use, and changing shares."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from quotas.models import Policy
from quotas.pools.members import members_read
from quotas.pools.queries import pool_read
from quotas.pools.shares import pool_create
from quotas.tenants import NewTenant, tenants_create, tier_create
from tests.access.people import token
from tests.dashboards.world import counted, drained
from tests.quotas.pools.world import DOCUMENT, grow, make_pool_world, make_team_world
from tests.quotas.world import FORCED, PAY, SAID

pytestmark = pytest.mark.django_db

CARDS = "/v1/pools/everyone-charge/cards"
WHY = {"reason": "because"}


@pytest.fixture
def operator(valkey: object) -> APIClient:
    make_pool_world()
    return APIClient(headers={"Authorization": f"Bearer {token('operator')}", "If-Match": "*"})


def assured() -> dict[str, int]:
    pool = pool_read("everyone-charge", "cards")
    assert pool is not None
    return {share.tenant: share.algorithm.assured for share in members_read(pool).shares}


def read(client: APIClient, path: str, status: int = 200) -> Any:
    answer = client.get(path)
    assert answer.status_code == status, answer.content
    return answer.json()


class TestReading:
    def test_pools_are_listed(self, operator: APIClient) -> None:
        [pool] = read(operator, "/v1/pools")["items"]
        assert (pool["policy"], pool["name"], pool["kind"], pool["endpoint"]) == (
            "everyone-charge",
            "cards",
            "shared",
            PAY,
        )
        assert (pool["rate"], pool["per"], pool["burst"], pool["reserve"]) == (100, "1s", 200, 100)
        assert read(operator, "/v1/pools?endpoint=payments:refund")["items"] == []

    def test_pools_come_in_pages(self, operator: APIClient) -> None:
        for name in ("a-pool", "b-pool"):
            pool_create(name=name, endpoint="payments:refund", fields={"rate": 10}, **FORCED)
        pool_create(name="own", tenant="kite", fields={"rate": 10}, **FORCED)
        first = read(operator, "/v1/pools?limit=3")
        second = read(operator, f"/v1/pools?limit=3&cursor={first['next']}")
        found = [[each["name"] for each in answer["items"]] for answer in (first, second)]
        assert second["next"] is None
        assert found == [["cards", "a-pool", "b-pool"], ["own"]]

    def test_a_pool_says_what_it_has_promised(self, operator: APIClient) -> None:
        pool = read(operator, CARDS)
        assert (pool["members"], pool["guaranteed"], pool["kept_percent"], pool["warnings"]) == (3, 80, 100, [])

    def test_its_members_come_with_their_use(self, operator: APIClient) -> None:
        counted("kite", "a", 120, ago=timedelta(seconds=20))
        counted("kite", "l", 60, limit="cards", ago=timedelta(seconds=20))
        drained()
        found = {each["tenant"]: each for each in read(operator, f"{CARDS}/members")["items"]}
        assert (found["kite"]["guaranteed"], found["kite"]["ceiling"], found["kite"]["own"]) == (30, 60, False)
        assert found["kite"]["minute"] == {"used": 180, "borrowed": 60, "denied": 0}
        assert found["summit"]["ceiling"] is None
        assert read(operator, f"{CARDS}/use")["minute"] == {"used": 180, "borrowed": 60, "denied": 0}

    def test_members_come_in_pages(self, operator: APIClient) -> None:
        grow(5)
        first = read(operator, f"{CARDS}/members?limit=5")
        second = read(operator, f"{CARDS}/members?limit=5&cursor={first['next']}")
        names = [each["tenant"] for page in (first, second) for each in page["items"]]
        assert names == sorted(names)
        assert (len(names), second["next"]) == (8, None)

    def test_a_pool_of_a_tier_is_read_for_one_of_its_tenants(self, operator: APIClient) -> None:
        make_team_world()
        assert read(operator, "/v1/pools/plain-all/org/use", 422)["field"] == "tenant"
        assert read(operator, "/v1/pools/plain-all/org/use?tenant=kite", 422)["code"] == "unknown"
        found = read(operator, "/v1/pools/plain-all/org/members?tenant=acme")["items"]
        assert [(each["limit"], each["level"]) for each in found] == [("team", 2), ("key", 3)]

    @pytest.mark.parametrize("path", ["/v1/pools/everyone-charge/other", "/v1/pools/gold-charge/charge"])
    def test_what_is_no_pool_is_not_found(self, operator: APIClient, path: str) -> None:
        read(operator, path, 404)


class TestChanging:
    def test_shares_change_in_one_revision(self, operator: APIClient) -> None:
        shares = [{"tenant": "kite", "guaranteed": 40, "ceiling": 70}, {"tenant": "lagoon", "guaranteed": 15}]
        answer = operator.patch(f"{CARDS}/members", {"shares": shares, "force": True, **WHY}, format="json")
        assert answer.status_code == 200, answer.content
        assert "Headroom-Revision" in answer.headers
        assert assured() == {"kite": 40, "lagoon": 15, "summit": 20}
        assert answer.json()["revision"] == int(answer.headers["Headroom-Revision"])

    def test_a_dry_run_changes_nothing(self, operator: APIClient) -> None:
        shares = [{"tenant": "kite", "guaranteed": 40}]
        answer = operator.patch(f"{CARDS}/members?dry_run=true", {"shares": shares, **WHY}, format="json")
        assert answer.json()["dry_run"] is True
        assert answer.json()["tenants"]["names"] == ["kite"]
        assert not Policy.objects.filter(tenant__name="kite").exists()

    @pytest.mark.parametrize(
        ("method", "path", "fields", "percent"),
        [
            ("patch", CARDS, {"rate": 40}, 50),
            ("patch", CARDS, {"rate": 90}, None),
            ("patch", f"{CARDS}/members", {"shares": [{"tenant": "summit", "guaranteed": 100}]}, 62),
            ("post", f"{CARDS}/members", {"tenant": "kite", "guaranteed": 150, "limit": "charge"}, 50),
            ("post", f"{CARDS}/members", {"tier": "bronze", "guaranteed": 60}, 50),
        ],
    )
    def test_a_dry_run_warns_of_what_the_pool_cannot_keep(
        self, operator: APIClient, method: str, path: str, fields: dict[str, Any], percent: int | None
    ) -> None:
        tier_create(name="bronze", **SAID)
        tenants_create(tenants=[NewTenant(name, "bronze") for name in ("ant", "bee")], **SAID)
        answer = getattr(operator, method)(f"{path}?dry_run=true", {**fields, **WHY}, format="json")
        assert answer.status_code == 200, answer.content
        told = [each for each in answer.json()["warnings"] if "keep only" in each]
        assert [each.partition(":")[0] for each in told] == (
            [f"The pool can keep only {percent} % of the guaranteed shares"] if percent else []
        )

    def test_dry_runs_of_a_policy_and_a_document_warn_as_well(self, operator: APIClient) -> None:
        told = "pool cards of everyone-charge: The pool can keep only 90 % of the guaranteed shares:"
        share = {"name": "charge", "algorithm": "borrowing", "assured": 45, "parent": "cards"}
        answer = operator.put("/v1/policies/gold-charge?dry_run=true", {"limits": [share], **WHY}, format="json")
        assert answer.json()["warnings"][0].startswith(told)
        document = DOCUMENT.replace("assured: 30, burst: 30", "assured: 45, burst: 45")
        answer = operator.post("/v1/document/plan", {"document": document}, format="json")
        assert answer.json()["warnings"][0].startswith(told)
        assert f"# {told}" in answer.json()["text"]

    def test_a_stale_version_is_refused(self, operator: APIClient) -> None:
        etag = operator.get(CARDS).headers["ETag"]
        shares = {"shares": [{"tenant": "kite", "guaranteed": 40}], **WHY}
        for status in (200, 412):
            answer = operator.patch(f"{CARDS}/members", shares, format="json", headers={"If-Match": etag})
            assert answer.status_code == status

    def test_an_added_and_a_removed_share_make_another_version(self, operator: APIClient) -> None:
        """Its own share is that of its tier, so nothing else that the pool shows differs."""
        seen = [operator.get(CARDS).headers["ETag"]]
        own = {"tenant": "kite", "limit": "charge", "guaranteed": 30, "ceiling": 60, **WHY}
        added = operator.post(f"{CARDS}/members", own, format="json")
        assert added.status_code == 201, added.content
        other = {"shares": [{"tenant": "lagoon", "guaranteed": 31}], **WHY}
        operator.patch(f"{CARDS}/members", other, format="json")
        seen.append(operator.get(CARDS).headers["ETag"])
        operator.patch(f"{CARDS}/members", {"shares": [{"tenant": "kite", "remove": True}], **WHY}, format="json")
        seen.append(operator.get(CARDS).headers["ETag"])
        assert len(set(seen)) == 3

    @pytest.mark.parametrize(
        ("share", "code"),
        [
            ({"tenant": "nobody", "guaranteed": 1}, "unknown"),
            ({"tenant": "kite", "remove": True}, "not-own"),
            ({"tenant": "kite", "guaranteed": 1, "what": 1}, "unknown-field"),
            ({"tenant": "kite", "guaranteed": -1}, "min-value"),
            ({"tenant": "kite", "guaranteed": "many"}, "type"),
        ],
    )
    def test_what_cannot_be_is_refused(self, operator: APIClient, share: dict[str, Any], code: str) -> None:
        answer = operator.patch(f"{CARDS}/members", {"shares": [share], **WHY}, format="json")
        assert 400 <= answer.status_code < 500
        assert code in str(answer.json()), answer.json()

    def test_a_share_of_nobody_says_what_is_missing(self, operator: APIClient) -> None:
        answer = operator.patch(f"{CARDS}/members", {"shares": [{}], **WHY}, format="json")
        assert answer.status_code == 422
        assert "A share has neither tenant nor limit" in answer.json()["detail"]

    def test_a_share_above_its_ceiling_says_whose(self, operator: APIClient) -> None:
        shares = [{"tenant": "summit", "guaranteed": 21}, {"tenant": "kite", "guaranteed": 61}]
        answer = operator.patch(f"{CARDS}/members", {"shares": shares, **WHY}, format="json")
        assert answer.status_code == 422
        assert "The ceiling of kite, 60, is below its guaranteed share of 61" in answer.json()["detail"]

    def test_a_member_of_a_shared_pool_has_a_tenant_or_a_tier(self, operator: APIClient) -> None:
        answer = operator.post(f"{CARDS}/members", {"guaranteed": 5, **WHY}, format="json")
        assert (answer.status_code, answer.json()["detail"]) == (422, "Name a tenant or a tier.")

    @pytest.mark.parametrize(
        ("path", "fields", "choices"),
        [
            ("/v1/pools", {"name": "other", "rate": 10, "mode": "on"}, "one of enforce, shadow, off"),
            ("/v1/tiers", {"name": "new", "priority": "top"}, "empty or one of critical, high, normal, sheddable"),
        ],
    )
    def test_a_wrong_word_is_answered_with_the_choices(
        self, operator: APIClient, path: str, fields: dict[str, Any], choices: str
    ) -> None:
        answer = operator.post(path, {**fields, **WHY}, format="json")
        assert 400 <= answer.status_code < 500
        assert choices in str(answer.json()), answer.json()

    def test_the_pool_itself_changes(self, operator: APIClient) -> None:
        answer = operator.patch(CARDS, {"rate": 120, "reserve": 80, **WHY}, format="json")
        assert (answer.json()["rate"], answer.json()["reserve"], answer.json()["burst"]) == (120, 80, 200)

    def test_a_rate_may_name_its_time(self, operator: APIClient) -> None:
        answer = operator.patch(CARDS, {"rate": "1200/10s", **WHY}, format="json")
        assert (answer.json()["rate"], answer.json()["per"]) == (1200, "10s")
        answer = operator.patch(CARDS, {"rate": "fast", **WHY}, format="json")
        assert (answer.status_code, answer.json()["field"]) == (422, "rate")

    def test_a_pool_is_made_and_gets_a_member(self, operator: APIClient) -> None:
        fields = {"name": "exports", "endpoint": "payments:refund", "rate": 10, "force": True, **WHY}
        made = operator.post("/v1/pools", fields, format="json")
        assert made.status_code == 201, made.content
        place = made.headers["Location"]
        member = {"tier": "gold", "guaranteed": 3, "force": True, **WHY}
        added = operator.post(f"{place}/members", member, format="json")
        assert added.status_code == 201, added.content
        assert added.json()["members"] == 2

    def test_a_repeated_key_makes_one_pool(self, operator: APIClient) -> None:
        fields = {"name": "exports", "endpoint": "payments:refund", "rate": 10, "force": True, **WHY}
        for _ in range(2):
            answer = operator.post("/v1/pools", fields, format="json", headers={"Idempotency-Key": "a-new-pool"})
            assert answer.status_code == 201
