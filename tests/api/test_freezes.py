"""/v1/freezes, and what a freeze answers to changes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from quotas.models import Freeze, Revision
from tests.access.people import signed_in
from tests.quotas.turns import another_process, full_queue
from tests.quotas.world import bucket

pytestmark = pytest.mark.usefixtures("world")
HALF = {"limits": [bucket(5)], "reason": "less", "force": True}
LATER = {"start": "2198-12-31T00:00:00Z", "end": "2199-01-01T00:00:00Z", "reason": "x"}


def test_it_is_set_respected_and_lifted(client: APIClient) -> None:
    until = (timezone.now() + timedelta(hours=1)).replace(microsecond=0)
    asked = {"end": until.isoformat(), "roles": ["approver"], "reason": "the holidays"}
    assert client.post("/v1/freezes?dry_run=true", asked).json()["changes"][0]["object"] == "freeze:new"
    assert not Freeze.objects.exists()
    made = client.post("/v1/freezes", asked)
    assert (made.status_code, made.json()["state"], made.json()["may_pass"]) == (201, "active", "the role approver")
    before = Revision.objects.count()
    refused = client.put("/v1/policies/free-all", HALF, headers={"If-Match": "*"})
    problem = refused.json()
    assert (refused.status_code, problem["code"], problem["reason"]) == (423, "frozen", "the holidays")
    assert (problem["until"], problem["may_pass"]) == (f"{until:%Y-%m-%dT%H:%M:%SZ}", "the role approver")
    assert 3_500 < int(refused["Retry-After"]) <= 3_600
    assert client.put("/v1/policies/free-all?dry_run=true", HALF, headers={"If-Match": "*"}).status_code == 200
    assert client.put("/v1/policies/free-all", HALF | {"propose": True}, headers={"If-Match": "*"}).status_code == 202
    assert Revision.objects.count() == before
    lifted = client.post(f"{made['Location']}/lift", {"reason": "done"}).json()
    assert (lifted["state"], lifted["lifted_author"]) == ("lifted", "ann")
    assert client.put("/v1/policies/free-all", HALF, headers={"If-Match": "*"}).status_code == 200
    states = {state: len(client.get(f"/v1/freezes?state={state}").json()["items"]) for state in ("active", "lifted")}
    assert states == {"active": 0, "lifted": 1}
    again = client.post(f"{made['Location']}/lift", {"reason": "done"})
    assert (again.status_code, again.json()["code"]) == (409, "over")


def test_a_cut_without_force_is_told_of_the_freeze(client: APIClient) -> None:
    assert client.post("/v1/tenants/acme/move", {"tier": "free", "reason": "less"}).status_code == 422
    client.post("/v1/freezes", {"end": (timezone.now() + timedelta(hours=1)).isoformat(), "reason": "x"})
    refused = client.post("/v1/tenants/acme/move", {"tier": "free", "reason": "less"})
    assert (refused.status_code, refused.json()["code"]) == (423, "frozen")


@pytest.mark.django_db(transaction=True)
def test_a_dry_run_of_a_freeze_waits_for_no_writer(client: APIClient) -> None:
    with another_process():
        answer = client.post("/v1/freezes?dry_run=true", LATER)
    assert (answer.status_code, Freeze.objects.count()) == (200, 0)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "once"}], ids=["plain", "once"])
def test_who_sets_one_waits_for_the_turn_without_a_transaction(
    client: APIClient, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    with full_queue(monkeypatch) as seen:
        answer = client.post("/v1/freezes", LATER, headers=headers)
    assert (answer.status_code, seen) == (503, [False])


def test_operators_cannot_set_one(client: APIClient) -> None:
    otto = signed_in("otto", "operator")
    asked = {"end": "2199-01-01T00:00:00Z", "reason": "x"}
    assert otto.post("/v1/freezes", asked, content_type="application/json").status_code == 403
