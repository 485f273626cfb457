from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from tests.headroom_edge.adaptive import BACKEND, Learned, learned
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.world import (
    ACME,
    BANKRUPT,
    HOURLY,
    MACHINE,
    OURS,
    READER,
    STRANGER,
    ZENITH,
    Answer,
    Client,
    publish_world,
)

ON_BOTH = True


def check(gateway: Client, body: Any, token: str = MACHINE) -> Answer:
    return gateway.post("/v1/check", body, authorization=f"Bearer {token}")


def test_a_check_is_answered_with_the_decision_and_what_to_relay(gateway: Client) -> None:
    answers = [check(gateway, {"tenant": "acme", "endpoint": "rides:list"}) for _ in range(6)]
    assert {answer.status for answer in answers} == {200}
    first, last = answers[0].json(), answers[-1].json()
    assert (first["allowed"], first["status"], first["remaining"], first["limit"]) == (True, 200, 4, "hourly")
    assert first["headers"]["RateLimit-Policy"] == '"hourly";q=5;w=3600'
    assert "problem" not in first
    assert (last["allowed"], last["status"], last["reason"]) == (False, 429, "limit")
    assert last["headers"]["Retry-After"] == str(-(-last["retry_after_ms"] // 1_000))
    assert last["problem"]["violated-policies"] == ["hourly"]
    assert last["problem"]["type"].endswith("#quota-exceeded")


def test_a_batch_is_answered_in_its_order(gateway: Client) -> None:
    one = {"tenant": "acme", "endpoint": "rides:list"}
    body = {"checks": [one] * 6 + [{"tenant": "zenith", "endpoint": "rides:list"}]}
    decisions = check(gateway, body).json()["decisions"]
    assert [decision["allowed"] for decision in decisions] == [True] * 5 + [False, True]
    assert [decision["tenant"] for decision in decisions] == ["acme"] * 6 + ["zenith"]


def test_the_owner_of_a_key_and_the_endpoint_of_a_path_are_found(gateway: Client) -> None:
    decision = check(gateway, {"api_key": ZENITH, "method": "GET", "path": "/v1/rides/7?x=1"}).json()
    assert (decision["tenant"], decision["endpoint"]) == ("zenith", "rides:get")
    nowhere = check(gateway, {"api_key": ZENITH, "method": "GET", "path": "/elsewhere"}).json()
    assert (nowhere["endpoint"], nowhere["allowed"], nowhere["remaining"]) == (None, True, 3)
    misspelt = check(gateway, {"api_key": ZENITH, "endpoint": "rides:lsit"}).json()
    assert (misspelt["endpoint"], misspelt["allowed"], misspelt["remaining"]) == (None, True, 2)
    for method, path in (("get", "/v1/rides/7"), ("GET", "/v1/rides/7#x"), ("GET", "http://host/v1/rides/7")):
        spelt = check(gateway, {"api_key": ZENITH, "method": method, "path": path}).json()
        assert spelt["endpoint"] == "rides:get", (method, path)


def test_the_key_is_a_subject(store: redis.Redis, gateway: Client) -> None:
    publish_world(store, limit("each", "fixed_window", "key", limit=1, window="1h"))
    body = {"api_key": ACME, "endpoint": "rides:list"}
    assert [check(gateway, body).json()["allowed"] for _ in range(2)] == [True, False]
    for other in ("another", None):  # who has the key is not for the caller to say
        assert not check(gateway, {**body, "subject": {"key": other}}).json()["allowed"]
    body["api_key"] = ZENITH
    assert check(gateway, body).json()["allowed"]


def test_a_customers_key_that_is_no_key_is_an_answer_and_no_error(gateway: Client) -> None:
    checks = [{"api_key": key, "endpoint": "rides:list"} for key in (STRANGER, "nonsense", READER, ACME)]
    decisions = check(gateway, {"checks": checks}).json()["decisions"]
    assert [(decision["allowed"], decision["status"]) for decision in decisions] == [
        (False, 401),
        (False, 401),
        (False, 403),
        (True, 200),
    ]


def test_a_suspended_tenant_gets_no_hint_to_come_back(gateway: Client) -> None:
    decision = check(gateway, {"api_key": BANKRUPT, "endpoint": "rides:list"}).json()
    assert (decision["allowed"], decision["status"], decision["retry_after_ms"]) == (False, 403, None)
    assert decision["problem"]["code"] == "tenant-suspended"


@pytest.mark.parametrize(
    ("token", "status", "code"),
    [
        ("", 401, "unauthorized"),
        ("hr_x", 401, "unauthorized"),
        (STRANGER, 401, "unauthorized"),
        (READER, 403, "scope-missing"),
    ],
)
def test_a_check_needs_a_token_with_its_scope(gateway: Client, token: str, status: int, code: str) -> None:
    answer = check(gateway, {"tenant": "acme", "endpoint": "rides:list"}, token)
    assert (answer.status, answer.json()["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_tenants_own_token_checks_for_that_tenant_alone(gateway: Client) -> None:
    assert check(gateway, {"endpoint": "rides:list"}, ACME).json()["tenant"] == "acme"
    for foreign in ({"tenant": "zenith"}, {"api_key": ZENITH}):
        answer = check(gateway, {**foreign, "endpoint": "rides:list"}, ACME)
        assert (answer.status, answer.json()["code"]) == (403, "foreign-tenant")


@pytest.mark.parametrize("path", ["/v1/check", "/v1/release"])
@pytest.mark.parametrize(("named", "token"), [({"tenant": "headroom"}, MACHINE), ({}, OURS)])
def test_nobody_can_use_up_the_limits_of_the_installation_itself(
    gateway: Client, path: str, named: dict[str, str], token: str
) -> None:
    body = {**named, "endpoint": "headroom:login", "holder": "h"}
    answer = gateway.post(path, body, authorization=f"Bearer {token}")
    assert (answer.status, answer.json()["code"]) == (403, "own-tenant")
    ours, theirs = check(
        gateway, {"checks": [{"api_key": key, "endpoint": "headroom:login"} for key in (OURS, ACME)]}
    ).json()["decisions"]
    assert (ours["status"], ours["problem"]["code"], theirs["status"]) == (403, "own-tenant", 200)


@pytest.mark.parametrize(
    "cost", ["NaN", "Infinity", "-1", "0", "0x10", "1e309", "1e18", '""', '"5"', "true", "1.5", "[]", "1000000001"]
)
def test_a_cost_that_is_none_is_refused_and_nothing_is_charged(gateway: Client, cost: str) -> None:
    raw = b'{"tenant":"acme","endpoint":"rides:list","cost":%s}' % cost.encode()
    answer = check(gateway, raw)
    assert answer.status == 400
    assert answer.json()["code"] in ("invalid-field", "invalid-json")
    good = {"tenant": "acme", "endpoint": "rides:list"}
    assert check(gateway, good).json()["remaining"] == 4


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        (b"", "invalid-json", None),
        (b"{", "invalid-json", None),
        (b"[]", "invalid-field", None),
        (b'{"tenant":"\xff"}', "invalid-json", None),
        (b'{"tenant":"acme","endpoint":"e","tenant":"zenith"}', "invalid-field", "tenant"),
        (b'{"tenant":"acme","endpoint":"e","subject":{"ip":"1","ip":"2"}}', "invalid-field", "ip"),
        (b'{"checks":[{"tenant":"acme","endpoint":"e","cost":1,"cost":2}]}', "invalid-field", "cost"),
        (b'{"tenant":"acme","endpoint":"e","subject":{"ip":"\\ud800"}}', "invalid-field", "subject.ip"),
        ({}, "missing-field", "tenant"),
        ({"tenant": "acme"}, "missing-field", "endpoint"),
        ({"tenant": "acme", "method": "GET"}, "missing-field", "endpoint"),
        ({"tenant": "No Tenant", "endpoint": "e"}, "invalid-field", "tenant"),
        ({"tenant": "acme", "endpoint": "e" * 300}, "invalid-field", "endpoint"),
        ({"tenant": "acme", "endpoint": "e", "subject": {"Ip!": "x"}}, "invalid-field", "subject"),
        ({"tenant": "acme", "endpoint": "e", "subject": {"ip": 7}}, "invalid-field", "subject[...]"),
        ({"tenant": "acme", "endpoint": "e", "subject": {"all": "x"}}, "invalid-field", "subject"),
        ({"tenant": "acme", "method": "GET", "path": "/v1/rides/" + "x" * 8_192}, "invalid-field", "path"),
        ({"tenant": "acme", "endpoint": "e", "typo": 1}, "invalid-field", "typo"),
        ({"tenant": 1, "endpoint": "e"}, "invalid-field", "tenant"),
        ({"checks": []}, "invalid-field", "checks"),
        ({"checks": [{"tenant": "acme", "endpoint": "e"}] * 1_001}, "invalid-field", "checks"),
        ({"checks": [{"tenant": "acme", "endpoint": "e"}], "tenant": "acme"}, "invalid-field", "checks"),
        ({"checks": [{"tenant": "acme", "endpoint": "e"}, {"tenant": "acme"}]}, "missing-field", "checks[1].endpoint"),
        ({"checks": [{"tenant": "acme", "endpoint": "e", "cost": "1"}]}, "invalid-field", "checks[0].cost"),
        ({"checks": [{"typo": "1"}]}, "invalid-field", "checks[0].typo"),
    ],
)
def test_bad_input_names_what_to_change(gateway: Client, body: Any, code: str, field: str | None) -> None:
    answer = check(gateway, body)
    assert (answer.status, answer.json()["code"], answer.json().get("field")) == (400, code, field)
    assert answer.json()["detail"]
    good = {"tenant": "acme", "endpoint": "rides:list"}
    assert check(gateway, good).json()["remaining"] == 4


def test_a_body_that_is_too_long_is_refused(gateway: Client) -> None:
    answer = check(gateway, b'{"tenant":"' + b"x" * 1_100_000 + b'"}')
    assert (answer.status, answer.json()["code"]) == (413, "too-large")


def test_other_methods_and_paths_are_refused(gateway: Client) -> None:
    answer = gateway.get("/v1/check")
    assert (answer.status, answer.headers["allow"], answer.json()["code"]) == (405, "POST", "method-not-allowed")
    assert gateway.get("/v1/nothing").json()["code"] == "not-found"


def test_a_slot_is_held_until_its_holder_releases_it(store: redis.Redis, gateway: Client) -> None:
    publish_world(store, limit("inflight", "concurrency", limit=1, hold="1h"))
    body = {"tenant": "acme", "endpoint": "rides:list"}
    first = check(gateway, {**body, "holder": "request-1"}).json()
    assert (first["allowed"], first["holder"]) == (True, "request-1")
    assert not check(gateway, body).json()["allowed"]
    released = gateway.post("/v1/release", {**body, "holder": "request-1"}, authorization=f"Bearer {MACHINE}")
    assert released.json() == {"released": 1}
    assert check(gateway, body).json()["holder"]


def test_the_name_of_a_holder_has_an_end(gateway: Client) -> None:
    answer = check(gateway, {"tenant": "acme", "endpoint": "rides:list", "holder": "a" * 201})
    assert (answer.status, answer.json()["field"]) == (400, "holder")


def test_a_release_without_a_holder_is_refused(gateway: Client) -> None:
    answer = gateway.post("/v1/release", {"tenant": "acme", "endpoint": "e"}, authorization=f"Bearer {MACHINE}")
    assert (answer.status, answer.json()["field"]) == (400, "holder")


def test_shaping_tells_the_caller_how_long_to_wait(store: redis.Redis, gateway: Client) -> None:
    publish_world(store, limit("slow", "leaky_bucket", rate=1, per="1h", queue=5))
    waits = [check(gateway, {"tenant": "acme", "endpoint": "rides:list"}).json()["wait_ms"] for _ in range(2)]
    assert waits[0] == 0
    assert 3_500_000 < waits[1] <= 3_600_000


def test_no_secret_comes_back(gateway: Client) -> None:
    answer = check(gateway, {"api_key": ACME, "endpoint": "rides:list"})
    assert ACME.encode() not in answer.body
    assert ACME.rpartition("_")[2] not in json.dumps(dict(answer.headers))
    assert HOURLY.name.encode() in answer.body


def test_a_release_may_tell_how_the_request_ended(store: redis.Redis, gateway: Client) -> None:
    publish_world(store, BACKEND)
    body = {"tenant": "acme", "endpoint": "rides:list"}
    for number, result in enumerate(("ok", "drop", "ignore")):
        holder = {"holder": f"request-{number}"}
        assert check(gateway, {**body, **holder}).json()["quota"] == 27
        told = {**body, **holder, "result": result}
        assert gateway.post("/v1/release", told, authorization=f"Bearer {MACHINE}").json() == {"released": 1}
    assert learned(store) == Learned(answers=1, drops=1)
    wrong = gateway.post("/v1/release", {**body, "holder": "h", "result": "no"}, authorization=f"Bearer {MACHINE}")
    assert (wrong.status, wrong.json()["field"]) == (400, "result")
    assert check(gateway, {**body, "result": "ok"}).status == 400
