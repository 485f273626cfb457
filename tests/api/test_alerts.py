"""Alerts over REST: what fires, its thresholds, and whom it tells."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from rest_framework.test import APIClient

from quotas.models import AlertDelivery, AlertSetting, AlertState, AlertTarget
from tests.access.people import token

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("world")]
NOW = datetime(2031, 3, 5, 14, 30, tzinfo=UTC)
HOOK = {"kind": "webhook", "address": "https://1.1.1.1/hook", "reason": "the duty phone"}


@pytest.fixture
def client() -> APIClient:
    return APIClient(headers={"Authorization": f"Bearer {token('operator')}", "If-Match": "*"})


def ask(client: APIClient, method: str, path: str, body: Any = None, status: int = 200) -> Any:
    answer = client.generic(method, f"/v1/{path}", "" if body is None else json.dumps(body), "application/json")
    assert answer.status_code == status, answer.content
    return answer.json() if answer.content else None


def test_what_fires_is_listed_with_its_runbook(client: APIClient) -> None:
    AlertState.objects.create(
        name="degraded", about="", value=2, text="2 enforcers", since=NOW, seen_at=NOW, told_at=NOW
    )
    AlertState.objects.create(name="drain-lag", about="", value=9, text="late", since=NOW, seen_at=NOW)
    (alert,) = ask(client, "GET", "alerts")["items"]
    assert (alert["alert"], alert["severity"], alert["runbook"]) == (
        "degraded",
        "critical",
        "docs/runbooks/degraded.md",
    )


def test_a_threshold_is_moved_and_moved_back(client: APIClient) -> None:
    moved = ask(client, "PATCH", "alert-rules/quota-80", {"threshold": 0.7, "reason": "earlier"})
    assert (moved["threshold"], moved["default"]) == (0.7, 0.8)
    rules = {rule["name"]: rule for rule in ask(client, "GET", "alert-rules")["items"]}
    assert rules["quota-80"]["threshold"] == 0.7
    ask(client, "PATCH", "alert-rules/quota-80", {"reason": "as it was"})
    assert not AlertSetting.objects.exists()


def test_a_threshold_that_makes_no_sense_is_refused(client: APIClient) -> None:
    assert "at most 1" in ask(client, "PATCH", "alert-rules/quota-80", {"threshold": 3, "reason": "x"}, 422)["detail"]
    ask(client, "PATCH", "alert-rules/nothing", {"threshold": 1, "reason": "x"}, 404)


def test_a_target_is_made_tested_and_deleted_and_its_secret_is_shown_once(client: APIClient) -> None:
    made = ask(client, "POST", "alert-targets", {**HOOK, "quiet_from": "22:00", "quiet_until": "07:00"}, 201)
    assert len(made["secret"]) == 64
    (shown,) = ask(client, "GET", "alert-targets")["items"]
    assert "secret" not in shown
    assert (shown["quiet_from"], shown["quiet_until"]) == ("22:00", "07:00")
    ask(client, "POST", f"alert-targets/{made['id']}/test", {"reason": "does it ring"}, 201)
    assert AlertDelivery.objects.get().body["events"][0]["state"] == "test"
    ask(client, "DELETE", f"alert-targets/{made['id']}?reason=moved", status=204)
    assert not AlertTarget.objects.exists()


def test_a_private_address_is_refused_with_one_sentence(client: APIClient) -> None:
    problem = ask(client, "POST", "alert-targets", {**HOOK, "address": "https://169.254.169.254/"}, 422)
    assert problem["field"] == "address"
    assert "private address" in problem["detail"]


def test_a_dry_run_makes_nothing(client: APIClient) -> None:
    assert ask(client, "POST", "alert-targets?dry_run=true", HOOK)["dry_run"]
    assert not AlertTarget.objects.exists()
