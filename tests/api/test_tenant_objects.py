"""Tenants as objects: tags, contacts, archive and restore; many at once; and imports from CSV."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rest_framework.test import APIClient

from api.v1 import tenant_bulk, tenant_imports
from api.v1.document_runs import answer
from quotas.api_keys import api_key_issue
from quotas.models import Revision
from quotas.overrides import override_create
from quotas.tenants import NewTenant, tenant_archive, tenants_create
from quotas.whole_tasks import whole_task_run
from tenants.models import ApiKey, Tenant
from tests.quotas.world import SAID, make_world, newest

WHY = {"reason": "because"}
JSON = "json"


def names(client: APIClient, query: str) -> list[str]:
    return [tenant["name"] for tenant in client.get(f"/v1/tenants?{query}").json()["items"]]


@pytest.mark.usefixtures("world")
class TestFields:
    def test_a_tenant_is_created_with_tags_and_contacts(self, client: APIClient) -> None:
        body = {"name": "city", "tier": "pro", "tags": ["vip", "eu"], "contacts": ["api@city.test"], **WHY}
        response = client.post("/v1/tenants", body, JSON)
        assert response.status_code == 201, response.json()
        assert (response.json()["tags"], response.json()["contacts"]) == (["eu", "vip"], ["api@city.test"])
        assert names(client, "tag=vip") == ["city"]

    def test_a_patch_changes_what_it_names(self, client: APIClient) -> None:
        path, any_version = "/v1/tenants/bolt", {"If-Match": "*"}
        client.patch(path, {"tags": ["eu"], "contacts": ["a@b.test"], **WHY}, JSON, headers=any_version)
        response = client.patch(path, {"label": "Bolt", **WHY}, JSON, headers=any_version)
        assert (response.json()["label"], response.json()["tags"]) == ("Bolt", ["eu"])

    @pytest.mark.parametrize(
        ("fields", "status"), [({"tags": ["No Tag"]}, 400), ({"contacts": ["nobody"]}, 422), ({"tags": "eu"}, 400)]
    )
    def test_what_does_not_fit_is_refused(self, client: APIClient, fields: dict[str, Any], status: int) -> None:
        response = client.patch("/v1/tenants/bolt", {**fields, **WHY}, JSON, headers={"If-Match": "*"})
        assert response.status_code == status


@pytest.mark.usefixtures("world")
class TestArchive:
    def test_it_is_listed_only_when_asked_for(self, client: APIClient) -> None:
        api_key_issue(tenant="acme", **SAID)
        response = client.post("/v1/tenants/acme/archive", WHY, JSON)
        assert response.json()["archived_at"] is not None
        assert (names(client, ""), names(client, "state=archived")) == (["bolt"], ["acme"])
        assert (names(client, "state=any"), names(client, "state=active")) == (["acme", "bolt"], ["bolt"])
        assert not ApiKey.objects.filter(revoked_at=None).exists()
        assert client.get("/v1/tenants/acme").status_code == 200
        assert client.post("/v1/tenants/acme/restore", WHY, JSON).json()["archived_at"] is None
        assert names(client, "") == ["acme", "bolt"]

    def test_a_dry_run_says_what_ends(self, client: APIClient) -> None:
        found = client.post("/v1/tenants/acme/archive?dry_run=true", WHY, JSON).json()
        assert [change["object"] for change in found["changes"]] == ["tenant:acme"]
        assert names(client, "state=archived") == []

    def test_other_edits_are_refused_until_it_is_restored(self, client: APIClient) -> None:
        tenant_archive(name="acme", **SAID)
        response = client.post("/v1/tenants/acme/suspend", WHY, JSON)
        assert response.status_code == 422
        assert "restore it first" in response.json()["detail"]


@pytest.mark.usefixtures("world")
class TestMany:
    def test_a_dry_run_of_a_move_says_who_gets_tighter(self, client: APIClient) -> None:
        body = {"names": ["acme", "bolt"], "tier": "free", **WHY}
        found = client.post("/v1/tenants/move?dry_run=true", body, JSON).json()
        assert (found["needs_force"], found["tighter_count"], found["stay_count"]) == (True, 1, 1)
        (move,) = found["moves"]
        assert (move["tenant"], [limit["change"] for limit in move["limits"]]) == ("acme", ["tighter", "gone"])

    def test_many_move_with_force_in_one_revision(self, client: APIClient) -> None:
        body = {"names": ["acme", "bolt"], "tier": "free", **WHY}
        assert client.post("/v1/tenants/move", body, JSON).status_code == 422
        response = client.post("/v1/tenants/move", {**body, "force": True}, JSON)
        assert response.json() == {"revision": newest().number}
        assert newest().touched == ["tenant:acme"]

    def test_an_override_in_the_way_of_a_move_is_named_and_can_be_ended(self, client: APIClient) -> None:
        override = override_create(tenant="acme", limits={"minute": {"rate": 2_000}}, **SAID)
        body = {"names": ["acme"], "tier": "free", "force": True, **WHY}
        refused = client.post("/v1/tenants/move?dry_run=true", body, JSON)
        assert refused.status_code == 422
        assert f"override {override.pk} of acme (minute on *)" in refused.json()["detail"]
        for choice, moved, left_out in (("end", ["acme"], 0), ("leave_out", [], 1)):
            chosen = {**body, "stranded_overrides": choice}
            found = client.post("/v1/tenants/move?dry_run=true", chosen, JSON).json()
            assert [move["tenant"] for move in found["moves"]] == moved
            assert [each["override"] for each in found["stranded_overrides"]] == [override.pk]
            assert found["left_out_count"] == left_out
        alone = {"tier": "free", "force": True, "stranded_overrides": "end", **WHY}
        assert client.post("/v1/tenants/acme/move", alone, JSON).json()["tier"] == "free"
        assert newest().touched == [f"override:{override.pk}", "tenant:acme"]

    def test_a_tier_is_retired_with_the_overrides_that_its_tenants_lose(self, client: APIClient) -> None:
        override = override_create(tenant="acme", limits={"minute": {"rate": 2_000}}, **SAID)
        body = {"to": "free", "force": True, **WHY}
        assert "stranded_overrides" in client.post("/v1/tiers/pro/retire", body, JSON).content.decode()
        ended = client.post("/v1/tiers/pro/retire", {**body, "stranded_overrides": "end"}, JSON)
        assert ended.status_code == 200
        assert f"override:{override.pk}" in newest().touched

    def test_more_than_a_few_are_judged_before_they_take_their_turn(self, client: APIClient) -> None:
        tenants_create(tenants=[NewTenant(f"t{n}", "free") for n in range(60)], **SAID)
        body = {"names": [f"t{n}" for n in range(60)], "tier": "pro", **WHY}
        assert client.post("/v1/tenants/move", body, JSON).status_code == 200
        assert Tenant.objects.filter(tier__name="pro").count() == 61

    def test_many_are_suspended_resumed_and_tagged(self, client: APIClient) -> None:
        both = {"names": ["acme", "bolt"], **WHY}
        assert client.post("/v1/tenants/suspend", both, JSON).json() == {"revision": newest().number}
        assert names(client, "state=suspended") == ["acme", "bolt"]
        client.post("/v1/tenants/resume", both, JSON)
        client.post("/v1/tenants/tag", {**both, "add": ["eu"]}, JSON)
        assert (names(client, "state=suspended"), names(client, "tag=eu")) == ([], ["acme", "bolt"])
        assert client.post("/v1/tenants/tag", {**both, "add": ["eu"]}, JSON).json() == {"revision": None}

    def test_one_unknown_name_keeps_all_of_them(self, client: APIClient) -> None:
        response = client.post("/v1/tenants/suspend", {"names": ["acme", "nobody"], **WHY}, JSON)
        assert response.status_code == 422
        assert names(client, "state=suspended") == []


class TestImport:
    TABLE = "name,tier,label\ncity,pro,City Cabs\nmoor,free,\n"

    @pytest.mark.usefixtures("world")
    def test_a_table_becomes_one_revision(self, client: APIClient) -> None:
        before = newest().number
        response = client.post("/v1/tenants/import", {"csv": self.TABLE, **WHY}, JSON)
        assert (response.status_code, response.json()) == (200, {"created": 2})
        assert (newest().number, names(client, "search=City")) == (before + 1, ["city"])

    @pytest.mark.usefixtures("world")
    def test_a_dry_run_lists_what_would_be_created(self, client: APIClient) -> None:
        found = client.post("/v1/tenants/import?dry_run=true", {"csv": self.TABLE, **WHY}, JSON).json()
        assert [change["object"] for change in found["changes"]] == ["tenant:city", "tenant:moor"]
        assert names(client, "search=moor") == []

    @pytest.mark.usefixtures("world")
    def test_problems_come_with_their_lines_and_nothing_is_created(self, client: APIClient) -> None:
        table = f"{self.TABLE}acme,pro,\nlast,gold,\n"
        response = client.post("/v1/tenants/import", {"csv": table, **WHY}, JSON)
        assert response.status_code == 409
        assert [error["line"] for error in response.json()["errors"]] == [4, 5]
        assert names(client, "search=city") == []

    @pytest.mark.django_db(transaction=True)
    def test_a_long_one_is_done_by_a_worker(self, client: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
        make_world()
        monkeypatch.setattr(tenant_imports, "LARGE", 1)
        monkeypatch.setattr("api.v1.document_tasks.run_document.delay", lambda number: None)
        before = Revision.objects.count()
        filed = client.post("/v1/tenants/import", {"csv": self.TABLE, **WHY}, JSON)
        assert (filed.status_code, filed.json()["action"]) == (202, "import")
        whole_task_run(filed.json()["id"], answer)
        found = client.get(filed.headers["Location"]).json()
        assert (found["state"], found["status"], found["result"]) == ("done", 200, {"created": 2})
        assert Revision.objects.count() == before + 1

    @pytest.mark.django_db(transaction=True)
    def test_a_long_one_whose_names_were_taken_meanwhile_says_so(
        self, client: APIClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_world()
        monkeypatch.setattr(tenant_imports, "LARGE", 1)
        monkeypatch.setattr("api.v1.document_tasks.run_document.delay", lambda number: None)
        filed = client.post("/v1/tenants/import", {"csv": self.TABLE, **WHY}, JSON)
        tenants_create(tenants=[NewTenant("moor", "free")], **SAID)
        whole_task_run(filed.json()["id"], answer)
        found = client.get(filed.headers["Location"]).json()
        assert found["state"] == "failed"
        assert "Tenant moor already exists" in found["problem"]
        assert not Tenant.objects.filter(name="city").exists()


@pytest.mark.usefixtures("world")
class TestWhere:
    """Many tenants, chosen by the filter of their list."""

    @pytest.fixture(autouse=True)
    def several(self, world: None) -> None:
        tenants_create(
            tenants=[NewTenant(f"shop-{n}", "free", tags=("eu",) if n < 2 else ()) for n in range(4)], **SAID
        )

    def test_a_dry_run_says_how_many_match_and_nothing_moves(self, client: APIClient) -> None:
        body = {"where": {"search": "shop", "tier": "free"}, "tier": "pro", **WHY}
        found = client.post("/v1/tenants/move?dry_run=true", body, JSON).json()
        assert (found["matched_count"], len(found["moves"])) == (4, 4)
        assert not Tenant.objects.filter(name__startswith="shop", tier__name="pro").exists()

    def test_those_that_match_are_changed_if_they_are_as_many_as_the_dry_run_told(self, client: APIClient) -> None:
        body = {"where": {"tag": "eu"}, "add": ["pilot"], "count": 3, **WHY}
        refused = client.post("/v1/tenants/tag", body, JSON)
        assert (refused.status_code, refused.json()["errors"][0]["code"]) == (422, "differs")
        assert client.post("/v1/tenants/tag", {**body, "count": 2}, JSON).status_code == 200
        assert names(client, "tag=pilot") == ["shop-0", "shop-1"]
        assert client.post("/v1/tenants/suspend", {"where": {"tag": "pilot"}, **WHY}, JSON).status_code == 200
        assert names(client, "state=suspended") == ["shop-0", "shop-1"]
        assert client.post("/v1/tenants/resume", {"where": {"state": "suspended"}, **WHY}, JSON).status_code == 200
        assert names(client, "state=suspended") == []

    @pytest.mark.parametrize(
        ("chosen", "code"),
        [
            ({}, "either"),
            ({"names": ["acme"], "where": {"tag": "eu"}}, "either"),
            ({"where": {}}, "missing"),
            ({"where": {"search": "nobody-like-this"}}, "unknown"),
            ({"where": {"search": " ", "tag": "eu"}}, "blank"),
        ],
    )
    def test_a_choice_that_is_none_is_refused(self, client: APIClient, chosen: dict[str, Any], code: str) -> None:
        refused = client.post("/v1/tenants/suspend", {**chosen, **WHY}, JSON)
        assert (refused.status_code, refused.json()["errors"][0]["code"]) == (422, code)
        assert names(client, "state=suspended") == []

    def test_space_around_a_search_means_nothing_as_in_the_list(self, client: APIClient) -> None:
        body = {"where": {"search": " shop-1 "}, **WHY}
        assert client.post("/v1/tenants/suspend?dry_run=true", body, JSON).json()["matched_count"] == 1

    @pytest.mark.parametrize("more", [{}, {"count": 2}])
    def test_more_than_fit_into_one_revision_are_refused_without_a_number_that_was_not_counted(
        self, client: APIClient, monkeypatch: pytest.MonkeyPatch, more: dict[str, int]
    ) -> None:
        monkeypatch.setattr(tenant_bulk, "_TENANTS", replace(tenant_bulk._TENANTS, most=3))
        refused = client.post("/v1/tenants/suspend", {"where": {"search": "shop"}, **more, **WHY}, JSON)
        assert refused.json()["detail"] == "More than 3 tenants match where; narrow its conditions."
