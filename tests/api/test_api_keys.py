"""/v1/api-keys: issued once, shown once, revoked for good."""

from __future__ import annotations

import json

import pytest
from django.core import serializers
from rest_framework.test import APIClient

from api.models import StoredAnswer
from quotas.models import AuditEvent
from tenants.models import ApiKey
from tests.quotas.world import opened_by

pytestmark = pytest.mark.usefixtures("world")
ASKED = {"tenant": "acme", "scopes": ["check"], "label": "till", "reason": "shop"}


def test_a_key_opens_what_it_was_issued_for(client: APIClient) -> None:
    answer = client.post("/v1/api-keys", ASKED)
    assert answer.status_code == 201
    found = opened_by(answer.json()["key"])
    assert found is not None
    assert (found.tenant.name, found.label, found.scopes) == ("acme", "till", ["check"])
    shown = client.get(answer["Location"]).json()
    assert shown == {name: value for name, value in answer.json().items() if name != "key"}


def test_its_text_is_kept_nowhere_even_for_a_repetition(client: APIClient) -> None:
    first = client.post("/v1/api-keys", ASKED, headers={"Idempotency-Key": "once"}).json()
    again = client.post("/v1/api-keys", ASKED, headers={"Idempotency-Key": "once"}).json()
    assert again == first | {"key": None}
    assert ApiKey.objects.count() == 1
    kept = [*ApiKey.objects.all(), *AuditEvent.objects.all(), *StoredAnswer.objects.all()]
    assert first["key"].rpartition("_")[2] not in serializers.serialize("json", kept)


def test_a_dry_run_issues_nothing(client: APIClient) -> None:
    answer = client.post("/v1/api-keys?dry_run=true", ASKED).json()
    assert answer["changes"][0]["object"] == "api_key:new"
    assert answer["tenants"]["names"] == ["acme"]
    assert "hr_" not in json.dumps(answer)
    assert (ApiKey.objects.count(), AuditEvent.objects.count()) == (0, 0)


def test_it_is_revoked_once_and_for_good(client: APIClient) -> None:
    issued = client.post("/v1/api-keys", ASKED).json()
    path = f"/v1/api-keys/{issued['key_id']}/revoke"
    rehearsed = client.post(path + "?dry_run=true", {"reason": "leak"}).json()
    assert rehearsed["changes"][0]["fields"] == [{"path": "revoked", "before": False, "after": True}]
    assert opened_by(issued["key"]) is not None
    revoked = client.post(path, {"reason": "leak"}).json()
    assert revoked["revoked_at"] is not None
    assert opened_by(issued["key"]) is None
    assert client.post(path, {"reason": "leak"}).json() == revoked


def test_they_are_listed_by_tenant_and_by_whether_they_work(client: APIClient) -> None:
    first = client.post("/v1/api-keys", ASKED).json()["key_id"]
    second = client.post("/v1/api-keys", ASKED | {"tenant": "bolt", "label": "app"}).json()["key_id"]
    client.post(f"/v1/api-keys/{first}/revoke", {"reason": "x"})

    def ids(query: str) -> list[str]:
        return [key["key_id"] for key in client.get(f"/v1/api-keys?{query}").json()["items"]]

    assert ids("") == [second, first]
    assert ids("revoked=false") == [second]
    assert ids("tenant=acme") == [first]
    assert ids("search=ap") == [second]


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [({"scopes": ["rule"]}, 400, "scopes"), ({"scopes": []}, 400, "scopes"), ({"tenant": "nobody"}, 422, "tenant")],
)
def test_a_wrong_one_is_refused_by_its_field(
    client: APIClient, change: dict[str, object], status: int, field: str
) -> None:
    answer = client.post("/v1/api-keys", ASKED | change)
    assert answer.status_code == status
    assert answer.json()["field"].startswith(field)
    assert not ApiKey.objects.exists()


def test_a_key_may_have_an_end(client: APIClient) -> None:
    issued = client.post("/v1/api-keys", ASKED | {"expires_at": "2199-01-31T18:00:00Z"}).json()
    assert (issued["expires_at"], issued["state"], issued["last_used"]) == ("2199-01-31T18:00:00Z", "active", None)
    assert client.post("/v1/api-keys", ASKED).json()["expires_at"] is None
    refused = client.post("/v1/api-keys", ASKED | {"expires_at": "2020-01-31T18:00:00Z"})
    assert (refused.status_code, refused.json()["field"]) == (422, "expires_at")


def test_a_rotation_shows_the_new_key_once_and_ends_the_old_one(client: APIClient) -> None:
    old = client.post("/v1/api-keys", ASKED).json()
    path = f"/v1/api-keys/{old['key_id']}/rotate"
    rehearsed = client.post(f"{path}?dry_run=true", {"overlap": "24h", "reason": "yearly"}).json()
    assert [change["object"] for change in rehearsed["changes"]] == ["api_key:new", f"api_key:{old['key_id']}"]
    assert ApiKey.objects.count() == 1
    answer = client.post(path, {"overlap": "24h", "reason": "yearly"}, headers={"Idempotency-Key": "once"})
    assert answer.status_code == 201
    new = answer.json()
    assert opened_by(new["key"]) is not None
    assert (new["counted_as"], new["label"]) == (old["key_id"], "till")
    again = client.post(path, {"overlap": "24h", "reason": "yearly"}, headers={"Idempotency-Key": "once"}).json()
    assert again == new | {"key": None}
    shown = client.get(f"/v1/api-keys/{old['key_id']}").json()
    assert (shown["state"], shown["successor"]) == ("overlap", new["key_id"])
    assert shown["expires_at"] is not None


@pytest.mark.parametrize("body", [{}, {"overlap": "24h", "until": "2199-01-31T18:00:00Z"}])
def test_a_rotation_has_one_end(client: APIClient, body: dict[str, str]) -> None:
    old = client.post("/v1/api-keys", ASKED).json()
    refused = client.post(f"/v1/api-keys/{old['key_id']}/rotate", {"reason": "yearly", **body})
    assert refused.status_code == 422
    assert "either overlap, such as 24h, or until" in refused.json()["detail"]


@pytest.mark.parametrize("overlap", ["91d", "999999999999s", "999999999999d"])
def test_an_overlap_that_is_too_long_is_refused(client: APIClient, overlap: str) -> None:
    old = client.post("/v1/api-keys", ASKED).json()
    refused = client.post(f"/v1/api-keys/{old['key_id']}/rotate", {"reason": "yearly", "overlap": overlap})
    assert (refused.status_code, refused.json()["code"]) == (422, "range")


def test_a_label_is_changed_by_whoever_saw_the_present_one(client: APIClient) -> None:
    issued = client.post("/v1/api-keys", ASKED).json()
    path = f"/v1/api-keys/{issued['key_id']}"
    assert client.patch(path, {"label": "app", "reason": "renamed"}).status_code == 428
    match = {"If-Match": client.get(path)["ETag"]}
    assert client.patch(path, {"label": "app", "reason": "renamed"}, headers=match).json()["label"] == "app"
    assert client.patch(path, {"label": "web", "reason": "renamed"}, headers=match).status_code == 412
