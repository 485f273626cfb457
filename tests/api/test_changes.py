"""/v1/changes: proposed or made to wait, approved, tried out, scheduled, promoted or dropped."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from quotas.models import AuditEvent, Change, Revision
from tests.access.people import token
from tests.quotas.world import bucket, limit_of, newest

pytestmark = pytest.mark.usefixtures("world")
ANY = {"If-Match": "*"}
HALF = {"limits": [bucket(5)], "reason": "less", "force": True}


def proposed(client: APIClient, **fields: Any) -> str:
    answer = client.put("/v1/policies/free-all", HALF | {"propose": True} | fields, headers=ANY)
    assert answer.status_code == 202, answer.json()
    return str(answer["Location"])


@pytest.fixture
def approver(client: APIClient) -> APIClient:
    return APIClient(headers={"Authorization": f"Bearer {token('approver')}"})


def test_what_is_proposed_changes_nothing_and_says_what_it_would(client: APIClient) -> None:
    before = Revision.objects.count()
    path = proposed(client)
    assert Revision.objects.count() == before
    shown = client.get(path).json()
    assert (shown["state"], shown["author"], shown["touched"]) == ("pending", "ann", ["policy:free-all"])
    assert shown["changes"][0]["fields"][0] == {"path": "limits.burst.rate", "before": 10, "after": 5}
    assert shown["impact"]["hurt"] == ["bolt"]
    for query, count in {"state=pending": 1, "state=canary": 0, "object=policy:free-all": 1, "author=bob": 0}.items():
        assert len(client.get(f"/v1/changes?{query}").json()["items"]) == count


def test_it_is_promoted_with_a_revision(client: APIClient) -> None:
    path = proposed(client)
    done = client.post(f"{path}/promote", {"reason": "now"})
    assert (done.status_code, done.json()["state"]) == (200, "promoted")
    assert done["Headroom-Revision"] == str(newest().number) == str(done.json()["end_revision"])
    assert limit_of("free-all").parameters["rate"] == 5
    again = client.post(f"{path}/promote", {"reason": "now"})
    assert (again.status_code, again.json()["code"]) == (409, "over")


def test_it_is_tried_by_a_share_of_the_tenants_and_dropped(client: APIClient) -> None:
    path = proposed(client)
    asked = {"mode": "canary", "share_percent": 12.5, "force": True, "reason": "try"}
    started = client.post(f"{path}/start", asked).json()
    assert (started["state"], started["share_percent"]) == ("canary", 12.5)
    assert client.put("/v1/policies/free-all", HALF, headers=ANY).json()["code"] == "in-use"
    assert client.post(f"{path}/drop", {"reason": "no"}).json()["state"] == "dropped"
    assert limit_of("free-all").parameters["rate"] == 10


def test_a_scheduled_cut_lists_whom_it_will_hurt_and_can_spare_them(client: APIClient) -> None:
    path = proposed(client)
    at = (timezone.now() + timedelta(days=1)).isoformat()
    asked = {"mode": "scheduled", "at": at, "reason": "in a day"}
    rehearsed = client.post(f"{path}/start?dry_run=true", asked | {"force": True}).json()
    assert (rehearsed["impact"]["hurt"], rehearsed["needs_force"]) == (["bolt"], True)
    assert rehearsed["changes"][0]["object"] == "policy:free-all"
    assert client.get(path).json()["state"] == "pending"
    assert client.post(f"{path}/start", asked).json()["code"] == "cut"
    spared = client.post(f"{path}/start", asked | {"grandfather": ["*"]}).json()
    assert (spared["state"], spared["grandfather"], spared["impact"]["hurt"]) == ("scheduled", ["*"], [])
    promoted = client.post(f"{path}/promote?dry_run=true", {"reason": "now"}).json()
    assert promoted["impact"]["hurt"] == []


def test_with_four_eyes_a_change_waits_for_another(client: APIClient, approver: APIClient, settings: Settings) -> None:
    settings.HEADROOM_FOUR_EYES = True
    waiting = client.put("/v1/policies/free-all", HALF, headers=ANY)
    path = waiting["Location"]
    assert (waiting.status_code, waiting.json()) == (202, {"change": Change.objects.get().pk})
    assert client.put("/v1/policies/free-all?dry_run=true", HALF, headers=ANY).json()["impact"]["hurt"] == ["bolt"]
    refused = client.post(f"{path}/promote", {"reason": "now"})
    assert (refused.status_code, refused.json()["code"]) == (409, "approval")
    assert client.post(f"{path}/approve", {"reason": "mine"}).json()["code"] == "author"
    approved = approver.post(f"{path}/approve", {"reason": "seen"}).json()
    assert [approval["reason"] for approval in approved["approvals"]] == ["seen"]
    assert client.post(f"{path}/promote", {"reason": "now"}).json()["state"] == "promoted"


def test_an_emergency_waits_for_nobody_and_is_noted(client: APIClient, settings: Settings) -> None:
    settings.HEADROOM_FOUR_EYES = True
    assert client.put("/v1/policies/free-all", HALF | {"emergency": True}, headers=ANY).status_code == 200
    assert AuditEvent.objects.filter(kind="approval_skipped").exists()


def test_the_same_key_files_once(client: APIClient) -> None:
    asked = {"name": "own", "tenant": "acme", "limits": [bucket(500)], "propose": True, "reason": "more"}
    answers = [client.post("/v1/policies", asked, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0]["Location"] == answers[1]["Location"]
    assert Change.objects.count() == 1


@pytest.mark.parametrize(
    ("asked", "status", "field"),
    [
        ({"mode": "slowly"}, 400, "mode"),
        ({"mode": "canary"}, 422, "share_percent"),
        ({"mode": "canary", "share_percent": "5"}, 400, "share_percent"),
        ({"mode": "canary", "share_percent": 100}, 400, "share_percent"),
        ({"mode": "scheduled"}, 422, "at"),
        ({"mode": "scheduled", "at": "2020-01-01T00:00:00Z"}, 422, "at"),
        ({"mode": "scheduled", "at": "2030-01-01T00:00:00Z", "grandfather": ["nobody"]}, 422, "tenant"),
    ],
)
def test_a_wrong_start_is_refused_by_its_field(
    client: APIClient, asked: dict[str, Any], status: int, field: str
) -> None:
    answer = client.post(f"{proposed(client)}/start", asked | {"reason": "x"})
    assert (answer.status_code, answer.json()["field"]) == (status, field)


def test_one_that_is_not_there(client: APIClient) -> None:
    assert client.get("/v1/changes/99").status_code == 404
    for step in ("promote", "drop", "approve"):
        assert client.post(f"/v1/changes/99/{step}", {"reason": "x"}).status_code == 404
