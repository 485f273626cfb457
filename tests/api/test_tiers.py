"""/v1/tiers: edited, duplicated and retired."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from tenants.models import Tenant, Tier

pytestmark = pytest.mark.usefixtures("world")
ANY = {"If-Match": "*"}
WHY = {"reason": "new plans"}


def test_its_texts_are_changed(client: APIClient) -> None:
    asked = {"label": "Professional", "description": "fleets", **WHY}
    assert client.patch("/v1/tiers/pro", asked).status_code == 428
    done = client.patch("/v1/tiers/pro", asked, headers=ANY)
    assert (done.status_code, done.json()["label"], done.json()["description"]) == (200, "Professional", "fleets")
    assert client.get("/v1/tiers?search=profess").json()["items"][0]["name"] == "pro"


def test_it_is_duplicated(client: APIClient) -> None:
    done = client.post("/v1/tiers/pro/duplicate", {"name": "gold", **WHY})
    assert (done.status_code, done["Location"]) == (201, "/v1/tiers/gold")
    assert client.get("/v1/policies/gold-all").json()["tier"] == "gold"
    assert client.post("/v1/tiers/pro/duplicate", {"name": "gold", **WHY}).status_code == 409
    assert client.post("/v1/tiers/none/duplicate", {"name": "x", **WHY}).status_code == 404


def test_it_is_retired_with_a_place_for_every_tenant(client: APIClient) -> None:
    refused = client.post("/v1/tiers/pro/retire", WHY)
    assert (refused.status_code, refused.json()["code"]) == (409, "in-use")
    rehearsed = client.post("/v1/tiers/pro/retire?dry_run=true", {"to": "free", **WHY}).json()
    assert rehearsed["needs_force"]
    assert {change["object"] for change in rehearsed["changes"]} == {"tier:pro", "tenant:acme", "policy:pro-all"}
    assert client.get("/v1/tiers/pro").status_code == 200
    done = client.post("/v1/tiers/pro/retire", {"tenants": {"acme": "free"}, "force": True, **WHY})
    assert (done.status_code, done.json()) == (200, {"name": "pro", "retired": True})
    assert client.get("/v1/tiers/pro").status_code == 404
    assert [row["name"] for row in client.get("/v1/tiers").json()["items"]] == ["free"]
    assert Tenant.objects.get(name="acme").tier.name == "free"
    revert = client.post(f"/v1/revisions/{done['Headroom-Revision']}/revert", {"force": True, **WHY})
    assert revert.status_code == 200, revert.json()
    assert Tenant.objects.get(name="acme").tier.name == "pro"


def test_an_empty_one_is_deleted(client: APIClient) -> None:
    number = Tier.objects.get(name="pro").number
    client.post("/v1/tiers/pro/retire", {"to": "free", "force": True, **WHY})
    created = client.post("/v1/tiers", {"name": "pro", **WHY})
    assert (created.status_code, Tier.objects.get(name="pro").number) == (201, number)
    assert client.delete("/v1/tiers/free?reason=old", headers=ANY).json()["code"] == "in-use"
    assert client.delete("/v1/tiers/pro?reason=old", headers=ANY).status_code == 204


def test_it_lowers_the_priority_of_its_tenants(client: APIClient) -> None:
    assert client.get("/v1/tiers/pro").json()["priority"] == ""
    done = client.patch("/v1/tiers/pro", {"priority": "high", "reason": "below partners"}, headers={"If-Match": "*"})
    assert (done.status_code, done.json()["priority"]) == (200, "high")
    back = client.patch("/v1/tiers/pro", {"priority": "", "reason": "as before"}, headers={"If-Match": "*"})
    assert back.json()["priority"] == ""
    wrong = client.patch("/v1/tiers/pro", {"priority": "urgent", "reason": "now"}, headers={"If-Match": "*"})
    assert (wrong.status_code, wrong.json()["field"]) == (400, "priority")
