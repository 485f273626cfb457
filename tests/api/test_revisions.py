"""/v1/revisions: the history, and the way back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rest_framework.test import APIClient

from api import edits
from quotas.errors import accepted
from quotas.models.revision import revisions_stamp
from quotas.policies.apply import document_apply
from quotas.policies.document import read_document
from quotas.policies.edit import limit_set
from quotas.tenants import NewTenant, tenants_create
from tests.quotas.turns import judged_in_turn
from tests.quotas.world import FORCED, SAID, bucket, limit_of, newest

pytestmark = pytest.mark.usefixtures("world")


def test_the_newest_is_first_and_says_who_and_why(client: APIClient) -> None:
    revisions_stamp(1_900_000_000_000_000)
    limit_set(policy="free-all", limit=bucket(11), author="bob", reason="a little more")
    items = client.get("/v1/revisions").json()["items"]
    assert (items[0]["author"], items[0]["reason"], items[0]["action"]) == ("bob", "a little more", "limit_set")
    assert (items[0]["touched"], items[0]["published"]) == (["policy:free-all"], None)
    assert items[1]["published"].startswith("2030-")
    for query, count in {"author=bob": 1, "object=policy:free-all": 2, "search=LITTLE": 1, "action=x": 0}.items():
        assert len(client.get(f"/v1/revisions?{query}").json()["items"]) == count


def test_a_long_one_is_cut(client: APIClient) -> None:
    tenants_create(tenants=[NewTenant(f"t{n}", "free") for n in range(50)], **SAID)
    shown = client.get(f"/v1/revisions/{newest().number}").json()
    assert (len(shown["touched"]), shown["touched_count"], len(shown["changes"])) == (20, 50, 50)


def test_the_difference_is_what_a_rollback_undoes(client: APIClient) -> None:
    then = newest().number
    for rate in (11, 12):
        limit_set(policy="free-all", limit=bucket(rate), **SAID)
    difference = client.get(f"/v1/revisions/{then}/diff").json()
    assert (difference["since"], difference["until"]) == (then, then + 2)
    assert difference["changes"][0]["fields"][0] == {"path": "limits.burst.rate", "before": 10, "after": 12}
    assert client.get(f"/v1/revisions/{then}/diff?until={then + 1}").json()["changes"][0]["fields"][0]["after"] == 11
    rehearsed = client.post(f"/v1/revisions/{then}/rollback?dry_run=true", {"reason": "back"}).json()
    assert rehearsed["changes"][0]["fields"][0] == {"path": "limits.burst.rate", "before": 12, "after": 10}
    assert limit_of("free-all").parameters["rate"] == 12


def test_going_back_is_a_revision_of_its_own(client: APIClient) -> None:
    then = newest().number
    limit_set(policy="free-all", limit=bucket(11), **SAID)
    done = client.post(f"/v1/revisions/{then + 1}/revert", {"reason": "oops"}).json()
    assert (done["number"], done["action"], limit_of("free-all").parameters["rate"]) == (
        then + 2,
        "revision_revert",
        10,
    )
    same = client.post(f"/v1/revisions/{then}/rollback", {"reason": "again"})
    assert (same.status_code, same.json()["number"]) == (200, then)


def test_what_was_touched_since_is_not_reverted(client: APIClient) -> None:
    first = newest().number + 1
    for rate in (11, 12):
        limit_set(policy="free-all", limit=bucket(rate), **SAID)
    answer = client.post(f"/v1/revisions/{first}/revert", {"reason": "x"})
    assert (answer.status_code, answer.json()["code"]) == (409, "touched-since")
    assert client.get("/v1/revisions/999").status_code == 404
    assert client.post("/v1/revisions/999/rollback", {"reason": "x"}).status_code == 404


@pytest.mark.django_db(transaction=True)
def test_with_an_idempotency_key_it_is_judged_before_its_turn_and_done_once(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    then = newest().number
    limit_set(policy="free-all", limit=bucket(11), **SAID)
    judged = judged_in_turn(monkeypatch)
    headers = {"Idempotency-Key": "once", "If-Match": client.get(f"/v1/revisions/{then}")["ETag"]}
    first, again = (
        client.post(f"/v1/revisions/{then}/rollback", {"reason": "back"}, headers=headers) for _ in range(2)
    )
    assert judged == [False]
    assert (first.json()["number"], again.json(), again["Idempotency-Replayed"]) == (then + 2, first.json(), "true")


@pytest.mark.django_db(transaction=True)
def test_a_repetition_that_was_judged_while_the_first_was_written_is_told_what_the_first_was(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_set(policy="free-all", limit=bucket(11), **SAID)
    path, body, headers = f"/v1/revisions/{newest().number}/revert", {"reason": "back"}, {"Idempotency-Key": "once"}
    firsts = []
    judge = edits.judged

    def late(*asked: Any) -> Any:
        monkeypatch.setattr(edits, "judged", judge)
        firsts.append(client.post(path, body, headers=headers))
        return judge(*asked)

    monkeypatch.setattr(edits, "judged", late)
    again = client.post(path, body, headers=headers)
    assert (again.status_code, again.json(), again["Idempotency-Replayed"]) == (200, firsts[0].json(), "true")


@pytest.mark.parametrize("way", ["rollback", "revert"])
def test_a_dry_run_of_many_objects_compares_the_first_and_judges_none(
    client: APIClient, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    then = newest().number
    tenants_create(tenants=[NewTenant(f"t{n}", "free") for n in range(5)], **SAID)
    policies = [{"name": f"p{n}", "tenant": f"t{n}", "endpoint": "*", "limits": [bucket(n + 1)]} for n in range(5)]
    document_apply(document=accepted(read_document(json.dumps({"policies": policies}))), **FORCED)
    path = f"/v1/revisions/{then + 1 if way == 'rollback' else then + 2}/{way}"
    whole = client.post(f"{path}?dry_run=true", {"reason": "back"}).json()
    assert (len(whole["changes"]), whole["needs_force"]) == (5, False)
    monkeypatch.setattr("api.v1.revisions.MOST_JUDGED", 4)
    monkeypatch.setattr("quotas.changes.undo_preview.MOST_COMPARED", 3)
    judged = judged_in_turn(monkeypatch)
    first = client.post(f"{path}?dry_run=true", {"reason": "back"}).json()
    assert first == {
        "dry_run": True,
        "changes": whole["changes"][:3],
        "tenants": None,
        "impact": None,
        "needs_force": None,
    }
    assert judged == []
    assert newest().number == then + 2
    stale = client.post(f"{path}?dry_run=true", {"reason": "back"}, headers={"If-Match": '"0"'})
    assert stale.status_code == 412
    assert client.post(f"/v1/revisions/999/{way}?dry_run=true", {"reason": "x"}).status_code == 404
    assert client.post(path, {"reason": "back"}).json()["number"] == then + 3
