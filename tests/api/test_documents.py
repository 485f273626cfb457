"""/v1/document: policy as code over HTTP."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator
from rest_framework.test import APIClient

from quotas.policies.edit import limit_set
from tests.quotas.world import DOCUMENT, PAY, SAID, bucket, limit_of, newest

pytestmark = pytest.mark.usefixtures("world")
MORE = DOCUMENT.replace("rate: 10,", "rate: 12,")


def test_what_is_exported_is_applied_as_no_change(client: APIClient) -> None:
    exported = client.get("/v1/document")
    assert exported["Content-Type"] == "application/yaml; charset=utf-8"
    before = newest().number
    applied = client.post("/v1/document/apply", {"document": exported.content.decode(), "reason": "same"})
    assert (applied.json(), newest().number) == ({"revision": None}, before)


def test_a_plan_is_applied_only_while_it_is_true(client: APIClient) -> None:
    plan = client.post("/v1/document/plan", {"document": MORE})
    assert "~ limits.burst.rate: 10 -> 12" in plan.json()["text"]
    assert (plan.json()["tenants"]["names"], plan.json()["needs_force"]) == (["bolt"], False)
    limit_set(policy="free-all", limit=bucket(11), author="bob", reason="first")
    asked = {"document": MORE, "reason": "more"}
    assert client.post("/v1/document/apply", asked, headers={"If-Match": plan["ETag"]}).status_code == 412
    plan = client.post("/v1/document/plan", {"document": MORE})
    assert [(drift["object"], drift["author"]) for drift in plan.json()["drift"]] == [("policy:free-all", "bob")]
    done = client.post("/v1/document/apply", asked, headers={"If-Match": plan["ETag"]})
    assert (done.json()["revision"], limit_of("free-all").parameters["rate"]) == (newest().number, 12)


def test_a_dry_run_is_the_plan(client: APIClient) -> None:
    asked = {"document": DOCUMENT.replace("rate: 100,", "rate: 50,"), "reason": "less"}
    answer = client.post("/v1/document/apply?dry_run=true", asked).json()
    assert (answer["needs_force"], answer["impact"]["hurt"]) == (True, ["acme"])
    refused = client.post("/v1/document/apply?dry_run=false", asked)
    assert (refused.status_code, refused.json()["code"]) == (422, "cut")
    assert client.post("/v1/document/apply", asked | {"force": True}).status_code == 200


def test_everything_that_is_wrong_is_told_with_its_line(client: APIClient) -> None:
    wrong = "tiers: [{name: FREE}]\npolicies: [{name: x, endpoint: '*', limits: []}]\n"
    for path in ("validate", "plan"):
        answer = client.post(f"/v1/document/{path}", {"document": wrong})
        assert answer.status_code == 422
        assert [(error["field"], error["line"]) for error in answer.json()["errors"]] == [
            ("tiers[0].name", 1),
            ("policies[0].limits", 2),
        ]
    assert client.post("/v1/document/validate", {"document": DOCUMENT}).json()["policies"] == 2


def test_names_that_are_not_there_are_told_with_their_line(client: APIClient) -> None:
    limits = "limits: [{name: b, algorithm: fixed_window, limit: 9, window: 1m}]"
    wrong = f"""tiers: [{{name: gold}}]
policies:
  - {{name: a, tier: golf, endpoint: "*", {limits}}}
  - {{name: b, tier: gold, endpoint: "rides:cancel", {limits}}}
  - {{name: c, tenant: nobody, endpoint: "{PAY}", {limits}}}
  - {{name: d, tenant: acme, endpoint: "{PAY}", {limits}}}
"""
    answer = client.post("/v1/document/validate", {"document": wrong})
    assert answer.status_code == 422
    assert [(error["code"], error["field"], error["line"]) for error in answer.json()["errors"]] == [
        ("unknown-tier", "policies[0].tier", 3),
        ("unknown-endpoint", "policies[1].endpoint", 4),
        ("unknown-tenant", "policies[2].tenant", 5),
    ]
    assert "did you mean gold?" in answer.json()["errors"][0]["detail"]


def test_its_schema_is_served(client: APIClient) -> None:
    Draft202012Validator.check_schema(client.get("/v1/document/schema").json())


def test_the_last_apply_is_what_drift_is_counted_from(client: APIClient) -> None:
    limit_set(policy="free-all", limit=bucket(11), **SAID)
    assert b"drift: ann" in client.get("/v1/document").content
    client.post("/v1/document/apply", {"document": DOCUMENT, "reason": "as written"})
    assert b"drift" not in client.get("/v1/document").content
