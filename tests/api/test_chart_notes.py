"""/v1/chart-notes: notes that people put on charts."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from quotas.models import ChartNote
from tests.access.people import token
from tests.quotas.world import make_world

pytestmark = pytest.mark.django_db

NOTE = {"at": "2030-01-07T08:00:00Z", "text": "a fair", "tenant": "acme", "reason": "to remember"}


def api(role: str, *scopes: str) -> APIClient:
    return APIClient(headers={"authorization": f"Bearer {token(role, *scopes)}"})


@pytest.fixture
def client() -> APIClient:
    make_world()
    return api("operator", "read", "write")


def test_one_is_added_listed_and_removed(client: APIClient) -> None:
    done = client.post("/v1/chart-notes", NOTE)
    assert (done.status_code, done.json()["tenant"]) == (201, "acme")
    where = done["Location"]
    shown = client.get(where)
    assert shown.json()["text"] == "a fair"
    assert [row["id"] for row in client.get("/v1/chart-notes").json()["items"]] == [done.json()["id"]]
    seen, gone = {"If-Match": shown["ETag"]}, f"{where}?reason=over"
    assert client.delete(f"{gone}&dry_run=true", headers=seen).json()["changes"][0]["action"] == "delete"
    assert client.delete(gone).status_code == 428
    assert client.delete(gone, headers=seen).status_code == 204
    assert client.get(where).status_code == 404


def test_a_dry_run_and_a_refusal_write_nothing(client: APIClient) -> None:
    assert client.post("/v1/chart-notes?dry_run=true", NOTE).json()["dry_run"]
    assert client.post("/v1/chart-notes", {**NOTE, "tenant": "nobody"}).status_code == 422
    assert client.post("/v1/chart-notes", {**NOTE, "text": ""}).status_code == 400
    assert not ChartNote.objects.exists()
