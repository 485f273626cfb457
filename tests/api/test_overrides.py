"""/v1/overrides: upcoming, active, ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from quotas.models import Override

pytestmark = pytest.mark.usefixtures("world")
HALF_AGAIN = {"tenant": "acme", "multiplier": {"numerator": 3, "denominator": 2}, "reason": "sale"}


def in_days(days: int) -> str:
    return (timezone.now() + timedelta(days=days)).isoformat()


def made(client: APIClient, **fields: Any) -> dict[str, Any]:
    answer = client.post("/v1/overrides", HALF_AGAIN | fields)
    assert answer.status_code == 201, answer.json()
    shown: dict[str, Any] = client.get(answer["Location"]).json()
    assert shown == answer.json()
    return shown


def test_each_is_shown_in_the_state_it_is_in(client: APIClient) -> None:
    active = made(client, end=in_days(1))
    upcoming = made(client, start=in_days(1), end=in_days(2))
    ended = made(client)
    client.post(f"/v1/overrides/{ended['id']}/cancel", {"reason": "over", "force": True})
    past = made(client, end=in_days(1))
    Override.objects.filter(pk=past["id"]).update(
        start=timezone.now() - timedelta(days=2), end=timezone.now() - timedelta(days=1)
    )
    for state, ids in {
        "active": [active["id"]],
        "upcoming": [upcoming["id"]],
        "ended": [past["id"], ended["id"]],
    }.items():
        found = client.get(f"/v1/overrides?tenant=acme&state={state}").json()["items"]
        assert ([row["id"] for row in found], {row["state"] for row in found}) == (ids, {state})


def test_it_changes_limits_by_name(client: APIClient) -> None:
    shown = made(client, multiplier=None, limits={"burst": {"rate": 300, "burst": 900}})
    assert (shown["limits"], shown["multiplier"]) == ({"burst": {"rate": 300, "burst": 900}}, None)
    assert (shown["author"], shown["reason"], shown["state"]) == ("ann", "sale", "active")


def test_it_ends_when_it_is_cancelled(client: APIClient) -> None:
    path = f"/v1/overrides/{made(client)['id']}/cancel"
    assert client.post(f"{path}?dry_run=true", {"reason": "x"}).json()["changes"][0]["action"] == "delete"
    assert client.post(path, {"reason": "x"}).json()["code"] == "cut"
    assert client.post(path, {"reason": "x", "force": True}).json()["state"] == "ended"
    again = client.post(path, {"reason": "x"})
    assert (again.status_code, again.json()["code"]) == (409, "over")


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"end": "2030-01-01T00:00:00"}, 400, "end"),
        ({"end": in_days(-1)}, 422, "end"),
        ({"multiplier": {"numerator": 0}}, 400, "multiplier.numerator"),
        ({"multiplier": None}, 422, "limits"),
        ({"endpoint": "no:such"}, 422, "endpoint"),
        ({"multiplier": None, "limits": {"burst": {"rate": "x"}}}, 422, "override"),
    ],
)
def test_a_wrong_one_is_refused_by_its_field(
    client: APIClient, change: dict[str, Any], status: int, field: str
) -> None:
    answer = client.post("/v1/overrides", HALF_AGAIN | change)
    assert answer.status_code == status
    assert answer.json()["field"].startswith(field)
    assert not Override.objects.exists()
