"""/v1/recommendations, /v1/whatif, /v1/calibrations and the parameters: what each role may do, and what they answer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from quotas.models import Recommendation, Task
from quotas.models.recommendation import Stage, Trust
from quotas.recommendations.forecast import forecast_of
from quotas.recommendations.lifecycle import recommendation_edit
from tests.access.people import token
from tests.quotas.turns import another_process, full_queue
from tests.quotas.world import limit_of

pytestmark = pytest.mark.usefixtures("world")
WHY = {"reason": "the forecast is good"}
PARAMETERS = "/v1/calibration-settings"
ANY = {"If-Match": "*"}


def recommended(**fields: Any) -> Recommendation:
    live = limit_of("pro-all").parameters
    return Recommendation.objects.create(
        **{
            "kind": "tier",
            "stage": Stage.SIMULATED,
            "policy": "pro-all",
            "limit": "burst",
            "tier": "pro",
            "endpoint": "*",
            "current": {"algorithm": "token_bucket", "parameters": live},
            "proposed": {"algorithm": "token_bucket", "parameters": {**live, "rate": 150, "burst": 300}},
            "evidence": {"days": 28},
            "forecast": {"denied_share": 0.001},
            "trust": Trust.HIGH,
            "measured_at": timezone.now(),
            **fields,
        }
    )


def by(role: str) -> APIClient:
    return APIClient(headers={"Authorization": f"Bearer {token(role)}"})


def test_they_are_listed_without_their_evidence_and_shown_with_it(client: APIClient) -> None:
    row = recommended()
    (item,) = client.get("/v1/recommendations?stage=simulated&trust=high").json()["items"]
    assert (item["id"], item["policy"], item["forecast"]) == (row.pk, "pro-all", {"denied_share": 0.001})
    assert "evidence" not in item
    assert client.get(f"/v1/recommendations/{row.pk}").json()["evidence"] == {"days": 28}
    assert client.get("/v1/recommendations?stage=shadow").json()["items"] == []
    assert client.get("/v1/recommendations/99").status_code == 404


def test_an_approver_brings_it_into_shadow_and_enforces_it(client: APIClient) -> None:
    row, path = recommended(), "/v1/recommendations/{}/{}"
    assert by("operator").post(path.format(row.pk, "approve"), WHY).status_code == 403
    approver = by("approver")
    done = approver.post(path.format(row.pk, "approve"), WHY)
    assert (done.status_code, done.json()["stage"], done.json()["problem"]) == (200, "shadow", "")
    early = approver.post(path.format(row.pk, "enforce"), WHY)
    assert (early.status_code, early.json()["code"]) == (422, "too-early")
    assert approver.post(path.format(row.pk, "enforce"), {"early": True, **WHY}).json()["stage"] == "enforced"
    assert limit_of("pro-all").parameters["rate"] == 150
    assert client.post(path.format(row.pk, "roll-back"), WHY).json()["stage"] == "rolled_back"
    assert limit_of("pro-all").parameters["rate"] == 100


def test_it_is_edited_simulated_and_dismissed(client: APIClient) -> None:
    row = recommended()
    edited = client.post(f"/v1/recommendations/{row.pk}/edit", {"rate": 120, "burst": 250, **WHY}).json()
    assert (edited["stage"], edited["is_edited"], edited["proposed"]["parameters"]["rate"]) == ("draft", True, 120)
    simulated = client.post(f"/v1/recommendations/{row.pk}/simulate", WHY).json()
    assert (simulated["stage"], simulated["forecast"]["denied_share"]) == ("simulated", 0)
    assert client.post(f"/v1/recommendations/{row.pk}/dismiss", {}).status_code == 400
    dismissed = client.post(f"/v1/recommendations/{row.pk}/dismiss", WHY).json()
    assert (dismissed["stage"], dismissed["reason"]) == ("dismissed", "the forecast is good")
    again = client.post(f"/v1/recommendations/{row.pk}/dismiss", WHY)
    assert (again.status_code, again.json()["code"]) == (409, "over")


def test_a_dry_run_leaves_it_as_it_was(client: APIClient) -> None:
    row = recommended()
    done = client.post(f"/v1/recommendations/{row.pk}/approve?dry_run=true", WHY).json()
    assert "policy:pro-all" in [change["object"] for change in done["changes"]]
    assert Recommendation.objects.get().stage == Stage.SIMULATED
    assert limit_of("pro-all").candidate is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("step", ["approve", "enforce", "dismiss", "roll-back"])
def test_a_dry_run_of_a_step_waits_for_no_turn(client: APIClient, step: str) -> None:
    row, path = recommended(), "/v1/recommendations/{}/{}"
    if step != "approve":
        assert client.post(path.format(row.pk, "approve"), WHY).json()["stage"] == "shadow"
    if step == "roll-back":
        assert client.post(path.format(row.pk, "enforce"), {"early": True, **WHY}).json()["stage"] == "enforced"
    with another_process():
        body = {"early": True, **WHY} if step == "enforce" else WHY
        done = client.post(f"{path.format(row.pk, step)}?dry_run=true", body)
    assert done.status_code == 200, done.json()
    assert "policy:pro-all" in [change["object"] for change in done.json()["changes"]]


@pytest.mark.django_db(transaction=True)
def test_a_replay_keeps_no_writer_waiting_and_waits_for_none(client: APIClient) -> None:
    path = f"/v1/recommendations/{recommended().pk}"
    seen = client.get(path)["ETag"]
    with another_process():
        done = client.post(f"{path}/simulate", WHY, headers={"If-Match": seen, "Idempotency-Key": "once"})
    assert (done.status_code, done.json()["forecast"]["denied_share"]) == (200, 0)
    assert done["ETag"] == client.get(path)["ETag"] != seen
    late = client.post(f"{path}/simulate", WHY, headers={"If-Match": seen})
    assert (late.status_code, late.json()["code"]) == (412, "precondition-failed")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("headers", [{}, ANY], ids=["plain", "any"])
def test_a_replay_of_what_was_edited_meanwhile_is_not_kept(
    client: APIClient, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    row = recommended()
    edit_meanwhile(row, monkeypatch)
    late = client.post(f"/v1/recommendations/{row.pk}/simulate", WHY, headers=headers)
    assert (late.status_code, late.json()["code"]) == (409, "touched-since")
    row.refresh_from_db()
    assert (row.stage, row.forecast) == (Stage.DRAFT, {})


@pytest.mark.django_db(transaction=True)
def test_a_version_that_changes_during_its_replay_no_longer_matches(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = recommended()
    seen = client.get(f"/v1/recommendations/{row.pk}")["ETag"]
    edit_meanwhile(row, monkeypatch)
    late = client.post(f"/v1/recommendations/{row.pk}/simulate", WHY, headers={"If-Match": seen})
    assert (late.status_code, late.json()["code"]) == (412, "precondition-failed")


def edit_meanwhile(row: Recommendation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody edits it on another connection, when the replay has been made and is not stored yet."""

    def edit() -> None:
        recommendation_edit(recommendation=row.pk, rate=120, burst=250, author="bob", reason="more")
        connection.close()

    def replayed(*asked: Any) -> Any:
        found = forecast_of(*asked)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(edit).result()
        return found

    monkeypatch.setattr("quotas.recommendations.lifecycle.forecast_of", replayed)


@pytest.mark.django_db(transaction=True)
def test_an_edit_of_a_known_version_waits_for_its_turn_without_a_transaction(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/v1/recommendations/{recommended().pk}/edit"
    headers = {"If-Match": "*", "Idempotency-Key": "once"}
    with full_queue(monkeypatch) as seen:
        answer = client.post(path, {"rate": 120, "burst": 250, **WHY}, headers=headers)
    assert (answer.status_code, seen) == (503, [False])


def test_in_bulk_only_those_of_high_confidence(client: APIClient) -> None:
    sure, unsure = recommended(), recommended(limit="minute", trust=Trust.MEDIUM)
    assert client.post("/v1/recommendations/approve", WHY).json() == {"approved": [sure.pk], "refused": []}
    unsure.refresh_from_db()
    assert unsure.stage == Stage.SIMULATED


def test_in_bulk_nobody_approves_values_that_they_have_not_seen(client: APIClient) -> None:
    sure = recommended()
    seen = client.get("/v1/recommendations/approve")
    assert [item["id"] for item in seen.json()["items"]] == [sure.pk]
    Recommendation.objects.update(proposed={**(sure.proposed or {}), "rate": 9})
    late = client.post("/v1/recommendations/approve", WHY, headers={"If-Match": seen["ETag"]})
    assert (late.status_code, late.json()["code"]) == (412, "precondition-failed")
    assert Recommendation.objects.get().stage == Stage.SIMULATED
    now = client.get("/v1/recommendations/approve")["ETag"]
    done = client.post("/v1/recommendations/approve", WHY, headers={"If-Match": now})
    assert done.json() == {"approved": [sure.pk], "refused": []}


def test_each_number_of_an_edit_is_refused_by_its_own_bounds(client: APIClient) -> None:
    path = f"/v1/recommendations/{recommended().pk}/edit"
    assert client.post(path, {"rate": 1e9, "burst": 10, **WHY}).status_code == 200
    for fields, field in (({"rate": 2e9, "burst": 10}, "rate"), ({"rate": 5, "burst": 10**13}, "burst")):
        assert client.post(path, fields | WHY).json()["field"] == field


def test_an_edit_that_would_be_changed_is_refused_at_its_field(client: APIClient) -> None:
    window = {"algorithm": "fixed_window", "parameters": {"limit": 10, "window": "1m"}}
    path = f"/v1/recommendations/{recommended(current=window, proposed=window).pk}/edit"
    refused = client.post(path, {"rate": 1e9, "burst": 10, **WHY})
    assert (refused.status_code, refused.json()["field"]) == (422, "rate")
    assert "leave rate out" in refused.json()["detail"]
    assert client.post(path, {"burst": 12, **WHY}).json()["proposed"]["parameters"]["limit"] == 12
    missing = client.post(f"/v1/recommendations/{recommended(limit='minute').pk}/edit", {"burst": 10, **WHY})
    assert (missing.status_code, missing.json()["field"]) == (422, "rate")


def test_what_if_is_filed_and_looked_at(client: APIClient) -> None:
    filed = client.post("/v1/whatif", {"document": "tiers: [{name: free}]", "days": 1, **WHY})
    assert (filed.status_code, filed.json()["state"], filed.json()["result"]) == (201, "waiting", None)
    Task.objects.update(state="done", percent=100, result={"freed": []})
    assert client.get(filed["Location"]).json()["result"] == {"freed": []}
    assert [item["percent"] for item in client.get("/v1/whatif").json()["items"]] == [100]
    wrong = client.post("/v1/whatif", {"document": "tiers: {", **WHY})
    assert (wrong.status_code, Task.objects.count()) == (422, 1)
    assert client.post("/v1/whatif", {"document": "tiers: []", "days": 99, **WHY}).status_code == 400


def test_a_calibration_that_waits_is_not_filed_twice(client: APIClient) -> None:
    first, second = (client.post("/v1/calibrations", WHY) for _ in range(2))
    assert first["Location"] == second["Location"]
    assert client.get(first["Location"]).json()["kind"] == "calibrate"


def test_parameters_are_read_and_set(client: APIClient) -> None:
    assert by("viewer").patch(PARAMETERS, {"values": {}, **WHY}, headers=ANY).status_code == 403
    done = client.patch(PARAMETERS, {"values": {"margin": 1.3}, **WHY}, headers=ANY).json()
    assert {item["name"]: item["value"] for item in done["items"]}["margin"] == 1.3
    wrong = client.patch(PARAMETERS, {"values": {"margin": 0.2}, **WHY}, headers=ANY)
    assert (wrong.status_code, wrong.json()["errors"][0]["detail"]) == (
        422,
        "Margin is a factor and must be at least 1, not 0.2.",
    )
    assert client.patch(PARAMETERS, {"values": {"margin": "x"}, **WHY}, headers=ANY).status_code == 400
