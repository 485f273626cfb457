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


class TestWhere:
    """Many overrides, chosen by the filter of their list."""

    @pytest.fixture(autouse=True)
    def several(self, world: None, client: APIClient) -> dict[str, int]:
        given = {
            "sale": made(client, end=in_days(1)),
            "endless": made(client, tenant="bolt", reason="a promise"),
            "over": made(client, tenant="bolt"),
        }
        client.post(f"/v1/overrides/{given['over']['id']}/cancel", {"reason": "over", "force": True})
        return {name: override["id"] for name, override in given.items()}

    def live(self) -> list[str]:
        rows = Override.objects.filter(cancelled_at=None).order_by("pk")
        return [row.reason for row in rows]

    def test_a_dry_run_says_how_many_match_and_nothing_ends(self, client: APIClient) -> None:
        body = {"where": {"tier": "free,pro"}, "reason": "over", "force": True}
        assert client.post("/v1/overrides/cancel?dry_run=true", body, "json").json()["matched_count"] == 2
        assert self.live() == ["sale", "a promise"]

    def test_those_that_match_end_if_they_are_as_many_as_the_dry_run_told(self, client: APIClient) -> None:
        body = {"where": {"state": "current"}, "count": 1, "reason": "over", "force": True}
        refused = client.post("/v1/overrides/cancel", body, "json")
        assert (refused.status_code, refused.json()["errors"][0]["code"]) == (422, "differs")
        assert refused.json()["detail"] == "2 overrides match where, not 1; look at a dry run again."
        assert client.post("/v1/overrides/cancel", {**body, "count": 2}, "json").status_code == 200
        assert self.live() == []

    @pytest.mark.parametrize(
        "where",
        [
            {"search": " SALE "},
            {"tenant": "acme"},
            {"tier": "pro", "endpoint": "*"},
            {"state": "active", "tenant": "acme"},
            {"state": "ending"},
        ],
    )
    def test_each_condition_narrows_the_choice(
        self, client: APIClient, several: dict[str, int], where: dict[str, str]
    ) -> None:
        until = in_days(9)
        body = {"where": where, "until": until, "reason": "longer"}
        assert client.post("/v1/overrides/extend", body, "json").status_code == 200
        extended = Override.objects.filter(end__gt=timezone.now() + timedelta(days=8))
        assert [row.pk for row in extended] == [several["sale"]]

    def test_tenants_that_match_are_given_an_override(self, client: APIClient) -> None:
        body = {"where": {"search": "bol"}, "count": 1, "multiplier": {"numerator": 3}, "reason": "launch"}
        assert client.post("/v1/overrides/give?dry_run=true", body, "json").json()["matched_count"] == 1
        given = client.post("/v1/overrides/give", body, "json").json()["overrides"]
        assert [row.tenant.name for row in Override.objects.filter(pk__in=given)] == ["bolt"]

    @pytest.mark.parametrize(
        ("path", "chosen", "code"),
        [
            ("cancel", {}, "either"),
            ("cancel", {"overrides": [1], "where": {"tenant": "acme"}}, "either"),
            ("cancel", {"where": {}}, "missing"),
            ("cancel", {"where": {"state": "upcoming"}}, "unknown"),
            ("cancel", {"where": {"search": " ", "tenant": "acme"}}, "blank"),
            ("extend", {"by": "1h"}, "either"),
            ("give", {"multiplier": {"numerator": 3}}, "either"),
        ],
    )
    def test_a_choice_that_is_none_is_refused(
        self, client: APIClient, path: str, chosen: dict[str, Any], code: str
    ) -> None:
        refused = client.post(f"/v1/overrides/{path}", {**chosen, "reason": "over", "force": True}, "json")
        assert (refused.status_code, refused.json()["errors"][0]["code"]) == (422, code)
        assert self.live() == ["sale", "a promise"]

    def test_ended_ones_cannot_be_asked_for(self, client: APIClient) -> None:
        body = {"where": {"state": "ended"}, "reason": "over"}
        assert client.post("/v1/overrides/cancel", body, "json").status_code == 400
        sale = {"where": {"search": "sale"}, "reason": "over", "force": True}
        assert client.post("/v1/overrides/cancel?dry_run=true", sale, "json").json()["matched_count"] == 1
