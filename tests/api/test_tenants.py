"""/v1/tenants: to list, create, change, move, suspend and resume."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from quotas.models import Outbox, Revision
from quotas.tenants import NewTenant, tenants_create
from tenants.models import Tenant
from tests.quotas.world import SAID, newest

pytestmark = pytest.mark.usefixtures("world")
BOLT = {
    "tier": "free",
    "label": "",
    "timezone": "UTC",
    "suspended": False,
    "suspended_reason": "",
    "tags": [],
    "contacts": [],
    "priority": "",
    "archived_at": None,
}


class TestList:
    def test_it_is_ordered_by_name(self, client: APIClient) -> None:
        answer = client.get("/v1/tenants").json()
        assert [tenant["name"] for tenant in answer["items"]] == ["acme", "bolt"]
        assert answer["next"] is None
        assert {k: v for k, v in answer["items"][1].items() if k not in ("created", "name", "figures")} == BOLT

    def test_pages_follow_each_other_without_a_gap(self, client: APIClient) -> None:
        tenants_create(tenants=[NewTenant(f"t{n:02}", "free") for n in range(11)], **SAID)
        for order in ("name", "-name", "created", "-created"):
            seen, asked = list[str](), {"limit": "4", "order": order}
            while asked:
                page = client.get("/v1/tenants", asked).json()
                seen += [tenant["name"] for tenant in page["items"]]
                asked = asked | {"cursor": page["next"]} if page["next"] else {}
            assert len(seen) == len(set(seen)) == 13
            assert order not in ("name", "-name") or seen == sorted(seen, reverse=order.startswith("-"))

    def test_it_filters_and_searches(self, client: APIClient) -> None:
        def names(query: str) -> list[str]:
            return [tenant["name"] for tenant in client.get(f"/v1/tenants?{query}").json()["items"]]

        assert names("tier=free") == ["bolt"]
        assert names("suspended=true") == []
        assert names("search=CM") == ["acme"]
        assert names("tier=pro&search=bolt") == []


class TestCreate:
    def test_it_is_there_with_a_revision_of_its_own(self, client: APIClient) -> None:
        answer = client.post("/v1/tenants", {"name": "corn", "tier": "pro", "label": "Corn & Co", "reason": "new"})
        assert answer.status_code == 201
        assert answer["Location"] == "/v1/tenants/corn"
        assert answer["Headroom-Revision"] == str(newest().number)
        assert (newest().author, newest().reason) == ("ann", "new")
        assert client.get(answer["Location"]).json() == answer.json()
        assert client.get(answer["Location"])["ETag"] == answer["ETag"]

    def test_a_dry_run_says_what_would_happen_and_changes_nothing(self, client: APIClient) -> None:
        before = Tenant.objects.count(), Revision.objects.count(), Outbox.objects.count()
        answer = client.post("/v1/tenants?dry_run=true", {"name": "corn", "tier": "pro", "reason": "new"})
        assert answer.status_code == 200
        assert [(change["object"], change["action"]) for change in answer.json()["changes"]] == [
            ("tenant:corn", "create")
        ]
        assert answer.json()["tenants"] == {"count": 1, "names": ["corn"], "is_everyone": False}
        assert (Tenant.objects.count(), Revision.objects.count(), Outbox.objects.count()) == before

    def test_the_same_key_creates_once(self, client: APIClient) -> None:
        asked = {"name": "corn", "tier": "pro", "reason": "new"}
        first = client.post("/v1/tenants", asked, headers={"Idempotency-Key": "k1"})
        again = client.post("/v1/tenants", asked, headers={"Idempotency-Key": "k1"})
        assert (again.status_code, again.json(), again["ETag"]) == (201, first.json(), first["ETag"])
        assert again["Idempotency-Replayed"] == "true"
        repeated = ("ETag", "Location", "Headroom-Revision")
        assert [again[name] for name in repeated] == [first[name] for name in repeated]
        other = client.post("/v1/tenants", asked | {"name": "dory"}, headers={"Idempotency-Key": "k1"})
        assert (other.status_code, other.json()["code"]) == (422, "idempotency-key-reused")
        assert not Tenant.objects.filter(name="dory").exists()


class TestChange:
    def test_it_needs_to_know_what_it_changes(self, client: APIClient) -> None:
        etag = client.get("/v1/tenants/acme")["ETag"]
        change = {"label": "Acme", "reason": "name"}
        assert client.patch("/v1/tenants/acme", change).json()["code"] == "precondition-required"
        done = client.patch("/v1/tenants/acme", change, headers={"If-Match": etag})
        assert (done.status_code, done.json()["label"]) == (200, "Acme")
        late = client.patch("/v1/tenants/acme", change, headers={"If-Match": etag})
        assert (late.status_code, late.json()["code"]) == (412, "precondition-failed")
        assert client.patch("/v1/tenants/acme", change, headers={"If-Match": "*"}).status_code == 200
        assert client.get("/v1/tenants/acme", headers={"If-None-Match": done["ETag"]}).status_code == 304

    def test_it_moves_suspends_and_resumes(self, client: APIClient) -> None:
        assert client.post("/v1/tenants/bolt/move", {"tier": "pro", "reason": "paid"}).json()["tier"] == "pro"
        suspended = client.post("/v1/tenants/bolt/suspend", {"reason": "abuse"}).json()
        assert (suspended["suspended"], suspended["suspended_reason"]) == (True, "abuse")
        assert client.post("/v1/tenants/bolt/resume", {"reason": "sorry"}).json()["suspended"] is False

    def test_nobody_unknown_is_moved(self, client: APIClient) -> None:
        answer = client.post("/v1/tenants/nobody/move", {"tier": "pro", "reason": "x"})
        assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
        answer = client.post("/v1/tenants/bolt/move", {"tier": "gold", "reason": "x"})
        assert (answer.status_code, answer.json()["field"]) == (422, "tier")


def test_a_tenant_may_have_a_priority_of_its_own(client: APIClient) -> None:
    asked = {"name": "cargo", "tier": "pro", "priority": "sheddable", "reason": "batch jobs"}
    assert client.post("/v1/tenants", asked).json()["priority"] == "sheddable"
    done = client.patch("/v1/tenants/cargo", {"priority": "", "reason": "as its tier"}, headers={"If-Match": "*"})
    assert (done.status_code, done.json()["priority"]) == (200, "")
