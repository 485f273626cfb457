"""/v1/endpoints."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from quotas.models import Endpoint, Revision
from tests.quotas.world import GET, PAY, bucket

pytestmark = pytest.mark.usefixtures("world")
ANY = {"If-Match": "*"}


def test_one_is_registered_with_what_its_author_knows(client: APIClient) -> None:
    asked = {"name": "rides:new", "method": "POST", "path": "/v1/rides", "hints": {"exact": True}, "reason": "new"}
    answer = client.post("/v1/endpoints", asked)
    assert answer.status_code == 201
    assert client.get("/v1/endpoints/rides:new").json() == {
        "name": "rides:new",
        "method": "POST",
        "path": "/v1/rides",
        "default_cost": 1,
        "priority": "normal",
        "hints": {"exact": True},
    }


def test_they_are_listed_by_name(client: APIClient) -> None:
    assert [row["name"] for row in client.get("/v1/endpoints").json()["items"]] == [PAY, GET]
    assert [row["name"] for row in client.get("/v1/endpoints?method=GET").json()["items"]] == [GET]
    assert [row["name"] for row in client.get("/v1/endpoints?search=charges").json()["items"]] == [PAY]


def test_a_change_says_whom_it_touches_before_it_is_made(client: APIClient) -> None:
    rehearsed = client.patch(f"/v1/endpoints/{PAY}?dry_run=true", {"default_cost": 9, "reason": "less"}, headers=ANY)
    assert rehearsed.json()["changes"] == [
        {
            "object": f"endpoint:{PAY}",
            "action": "update",
            "fields": [{"path": "default_cost", "before": 10, "after": 9}],
        }
    ]
    assert rehearsed.json()["tenants"] == {"count": 2, "names": ["acme", "bolt"], "is_everyone": True}
    assert Endpoint.objects.get(name=PAY).default_cost == 10
    done = client.patch(f"/v1/endpoints/{PAY}", {"default_cost": 9, "reason": "less"}, headers=ANY)
    assert done.json()["default_cost"] == 9


def test_one_that_goes_is_not_found_again(client: APIClient) -> None:
    path = f"/v1/endpoints/{GET}"
    assert client.delete(path, headers=ANY).json()["field"] == "reason"
    assert client.delete(f"{path}?reason=old").status_code == 428
    assert client.delete(f"{path}?reason=old&dry_run=true", headers=ANY).json()["changes"][0]["action"] == "delete"
    done = client.delete(f"{path}?reason=old", headers=ANY)
    assert (done.status_code, done.content) == (204, b"")
    assert done["Headroom-Revision"] == str(Revision.objects.count())
    assert client.get(path).status_code == 404
    assert client.delete(f"{path}?reason=old", headers=ANY).status_code == 404


def test_two_cannot_share_a_route(client: APIClient) -> None:
    answer = client.post(
        "/v1/endpoints", {"name": "rides:one", "method": "GET", "path": "/v1/rides/{x}", "reason": "r"}
    )
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (409, "taken", "path")


def test_one_with_limits_is_retired_only_if_they_may_go_too(client: APIClient) -> None:
    policy = {"name": "pro-get", "tier": "pro", "endpoint": GET, "limits": [bucket(1000)], "reason": "r", "force": True}
    assert client.post("/v1/policies", policy).status_code == 201
    path = f"/v1/endpoints/{GET}?reason=old&force=true"
    assert client.delete(path, headers=ANY).json()["code"] == "in-use"
    rehearsed = client.delete(f"{path}&with_limits=true&dry_run=true", headers=ANY).json()
    assert [change["object"] for change in rehearsed["changes"]] == [f"endpoint:{GET}", "policy:pro-get"]
    assert client.delete(f"{path}&with_limits=true", headers=ANY).status_code == 204
    assert client.get("/v1/policies/pro-get").status_code == 404


def test_a_lower_priority_is_said_before_it_is_written(client: APIClient) -> None:
    pool = {"name": "org", "algorithm": "pool", "rate": 100, "burst": 200}
    policy = {"name": "backend", "endpoint": "*", "limits": [pool], "force": True, "reason": "shared"}
    assert client.post("/v1/policies", policy).status_code == 201
    path, asked = f"/v1/endpoints/{PAY}", {"priority": "sheddable", "reason": "can wait"}
    told = client.patch(f"{path}?dry_run=true", asked, headers=ANY).json()
    assert told["needs_force"] is False
    assert told["impact"]["lowered"] == [
        {
            "owner": "everyone",
            "before": "normal",
            "after": "sheddable",
            "endpoints": [PAY],
            "endpoint_count": 1,
            "tenants": 2,
        }
    ]
    assert client.patch(path, asked, headers=ANY).json()["priority"] == "sheddable"
    wrong = client.patch(path, {"priority": "urgent", "reason": "now"}, headers=ANY)
    assert (wrong.status_code, wrong.json()["field"]) == (400, "priority")
