"""Whatever is wrong, the answer is problem+json: a stable code, the field, one sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from psycopg.errors import DiskFull, SerializationFailure
from psycopg_pool import PoolTimeout, TooManyRequests
from rest_framework.exceptions import Throttled
from rest_framework.test import APIClient

from api.errors import problem_of
from quotas.changes.turn import _queue
from quotas.errors import Refused
from quotas.models import Revision
from quotas.policies.problems import Problem
from tenants.models import Tenant
from tests.quotas.world import bucket

pytestmark = pytest.mark.usefixtures("world")
TENANTS = "/v1/tenants"
NEW = {"name": "corn", "tier": "pro", "reason": "new"}


def refused(answer: Any, status: int, code: str) -> dict[str, Any]:
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    problem: dict[str, Any] = answer.json()
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["detail"].endswith((".", "?"))
    return problem


def sent(client: APIClient, body: Any, content_type: str = "application/json") -> Any:
    return client.generic("POST", TENANTS, body, content_type=content_type)


@pytest.mark.parametrize(
    ("change", "field", "code"),
    [
        ({"name": "UPPER"}, "name", "invalid"),
        ({"name": 5}, "name", "type"),
        ({"label": "a\x00b"}, "label", "null-characters-not-allowed"),
        ({"label": "\ud800"}, "label", "surrogate-characters-not-allowed"),
        ({"label": "x" * 201}, "label", "max-length"),
        ({"reason": ""}, "reason", "blank"),
        ({"nmae": "corn"}, "nmae", "unknown-field"),
        ({"tier": None}, "tier", "null"),
    ],
)
def test_a_field_that_cannot_be_read(client: APIClient, change: dict[str, Any], field: str, code: str) -> None:
    problem = refused(sent(client, json.dumps(NEW | change)), 400, code)
    assert problem["field"] == field
    assert not Tenant.objects.filter(name="corn").exists()


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"null", b'"text"', b"\xff", b"[" * 100_000, b'{"name": NaN}', b'{"name": ' + b"9" * 5_000 + b"}"],
)
def test_a_body_that_is_no_object(client: APIClient, body: bytes) -> None:
    answer = sent(client, body)
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    "body", [b'{"tier": "pro", "name": "corn", "tier": "free"}', b'{"a": [{"tier": 1, "tier": 1}]}']
)
def test_a_key_that_is_given_twice(client: APIClient, body: bytes) -> None:
    problem = refused(sent(client, body), 400, "repeated")
    assert (problem["field"], problem["detail"]) == ("tier", "tier is given twice in one object; give it once.")


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        (
            b"\xed\xa0\x80",
            "Byte 11 of the body begins half of a character (a lone surrogate); send the whole character",
        ),
        (b"\xff", "Byte 11 of the body (0xff) is not UTF-8; send the body in UTF-8."),
        (b"\\ud800", "label: Surrogate characters are not allowed: U+D800."),
    ],
)
def test_a_text_that_is_no_text(client: APIClient, text: bytes, detail: str) -> None:
    told = sent(client, b'{"label": "%s", "name": "corn", "tier": "pro", "reason": "x"}' % text).json()["detail"]
    assert told.startswith(detail)
    assert "JSON" not in told


@pytest.mark.parametrize("sign", [b"", b"-"])
def test_a_number_that_is_too_long_to_read(client: APIClient, sign: bytes) -> None:
    answer = sent(client, b'{"name": "corn", "tier": "pro", "number": %s%s}' % (sign, b"9" * 5_000))
    assert answer.status_code == 400
    assert answer.json()["detail"] == "JSON parse error: a number has 5,000 digits; write one with fewer than 1,000."


def test_a_body_that_is_too_large(client: APIClient) -> None:
    refused(sent(client, b" " * (2 * 1_048_576 + 1)), 413, "too-large")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=many", "limit"),
        ("order=label", "order"),
        ("cursor=abc", "cursor"),
        ("teir=pro", "teir"),
        ("suspended=perhaps", "suspended"),
        ("search=%00", "search"),
        ("limit=1&limit=2", "limit"),
    ],
)
def test_a_parameter_that_cannot_be_read(client: APIClient, query: str, field: str) -> None:
    assert refused_field(client.get(f"{TENANTS}?{query}")) == field


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (f"{TENANTS}?dry_run=true&dry_run=false", "dry_run"),
        (f"{TENANTS}?dry-run=true", "dry-run"),
        ("/v1/explain?dry_run=true", "dry_run"),
        ("/v1/revisions/1/rollback?dryrun=true", "dryrun"),
    ],
)
def test_with_a_query_that_may_mean_something_else_nothing_is_done(client: APIClient, path: str, field: str) -> None:
    before = Revision.objects.count()
    assert refused_field(client.post(path, NEW, headers={"If-Match": "*"})) == field
    assert Revision.objects.count() == before


@pytest.mark.parametrize(
    ("path", "asked", "begins"),
    [
        ("/v1/overrides", {"tenant": "acme", "limits": {"burst": {"rate": 0}}}, "limits.burst.rate must be"),
        (
            "/v1/policies",
            {"name": "x", "tier": "pro", "limits": [{"name": "y", "algorithm": "gcra"}]},
            "limits[0].rate ",
        ),
        ("/v1/tenants", {"tier": "pro"}, "name: This field is required."),
        ("/v1/tenants", {"name": "x", "tier": "no"}, "There is no tier no;"),
    ],
)
def test_a_field_is_named_as_it_is_written(client: APIClient, path: str, asked: dict[str, Any], begins: str) -> None:
    detail = client.post(path, {**asked, "reason": "r"}).json()["detail"]
    assert detail.startswith(begins)


def refused_field(answer: Any) -> str:
    assert answer.status_code == 400
    return str(answer.json()["field"])


def test_a_cursor_belongs_to_its_order(client: APIClient) -> None:
    cursor = client.get(f"{TENANTS}?limit=1").json()["next"]
    for wrong in (f"order=-name&cursor={cursor}", f"cursor={cursor}x"):
        refused(client.get(f"{TENANTS}?limit=1&{wrong}"), 422, "cursor")
    assert refused_field(client.get(f"{TENANTS}?limit=1&cursor=abc")) == "cursor"


def test_an_address_that_is_not_there(client: APIClient) -> None:
    for path in ("/v1/", "/v1/nothing", "/v1/tenants/UPPER", "/v1/tenants/%00", "/v1/overrides/0", "/v1/tenants/"):
        refused(client.get(path), 404, "not-found")
    assert client.get("/nothing")["Content-Type"].startswith("text/html")


def test_a_method_a_type_and_a_format_that_are_not_served(client: APIClient) -> None:
    refused(client.put(TENANTS, {}), 405, "method-not-allowed")
    refused(client.options(TENANTS), 405, "method-not-allowed")
    refused(sent(client, b"a=b", "text/csv"), 415, "unsupported-media-type")
    refused(client.get(TENANTS, headers={"Accept": "application/xml"}), 406, "not-acceptable")


def test_nobody_and_a_page_of_another(client: APIClient) -> None:
    refused(Client().get(TENANTS), 401, "unauthorized")
    strict = APIClient(enforce_csrf_checks=True)
    strict.cookies = client.cookies
    refused(strict.post(TENANTS, NEW), 403, "permission-denied")


def test_a_precondition_that_cannot_be_read(client: APIClient) -> None:
    answer = client.patch(f"{TENANTS}/acme", {"reason": "x"}, headers={"If-Match": "nonsense"})
    refused(answer, 412, "precondition-failed")
    refused(client.post(TENANTS, NEW, headers={"Idempotency-Key": ""}), 400, "idempotency-key")
    refused(client.post(TENANTS, NEW, headers={"Idempotency-Key": "x" * 256}), 400, "idempotency-key")


@pytest.mark.parametrize("path", ["/v1/policies", "/v1/tenants", "/v1/overrides", "/v1/api-keys", "/v1/bypasses"])
def test_what_has_no_version_matches_none(client: APIClient, path: str) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "/v1/policies": {"name": "new", "tenant": "acme", "limits": [bucket(5, "new")]},
        "/v1/tenants": {"name": "corn", "tier": "pro"},
        "/v1/overrides": {"tenant": "acme", "multiplier": {"numerator": 2}},
        "/v1/api-keys": {"tenant": "acme"},
        "/v1/bypasses": {"scope": "tenant", "name": "acme", "duration": "1m"},
    }
    asked = {**bodies[path], "reason": "x"}
    before = Revision.objects.count()
    for address in (path, f"{path}?dry_run=true"):
        refused(client.post(address, asked, headers={"If-Match": '"0123"'}), 412, "precondition-failed")
    assert Revision.objects.count() == before
    assert client.post(f"{path}?dry_run=true", asked, headers={"If-Match": "*"}).status_code == 200


def test_an_outage_is_not_a_fault() -> None:
    problem = problem_of(OperationalError("down"))
    assert problem is not None
    assert (problem.status, problem.headers) == (503, {"Retry-After": "1"})


def test_half_a_character_in_what_is_read_elsewhere(client: APIClient) -> None:
    asked = {"name": "x", "tier": "pro", "limits": [{"\ud800": 1, "name": "\ud800"}], "reason": "r"}
    headers = {"Idempotency-Key": "k"}
    answer = client.generic("POST", "/v1/policies", json.dumps(asked), "application/json", headers=headers)
    assert answer.status_code == 422


def test_waiting_is_told_in_whole_seconds() -> None:
    problem = problem_of(Throttled(wait=0.2))
    assert problem is not None
    assert (problem.status, problem.headers["Retry-After"]) == (429, "1")


def test_a_fault_of_ours_is_not_hidden() -> None:
    assert problem_of(KeyError("x")) is None


def test_every_problem_of_a_refusal_is_told() -> None:
    found = problem_of(Refused([Problem("limits[0].rate", "a_code", "rate is odd", 3), Problem("", "b", "no")]))
    assert found is not None
    assert (found.status, found.code, found.extra["field"]) == (422, "a-code", "limits[0].rate")
    assert found.extra["errors"] == [
        {"field": "limits[0].rate", "code": "a-code", "detail": "limits[0].rate is odd.", "line": 3},
        {"field": "", "code": "b", "detail": "No."},
    ]


def test_behind_a_writer_that_takes_too_long_the_reason_is_true(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quotas.changes.turn.MOST_WAITING", 0)  # a full queue refuses as one that took too long does
    assert _queue.enter(0)
    try:
        answer = client.post(TENANTS, NEW)
    finally:
        _queue.leave()
    problem = refused(answer, 503, "busy")
    assert problem["detail"] == "Another change is being written; try again in 2 seconds."
    assert answer["Retry-After"] == "2"


@pytest.mark.parametrize(
    ("cause", "code", "words"),
    [
        (TooManyRequests("all 20"), "busy", "All database connections are in use; try again in 2 seconds."),
        (SerializationFailure(), "busy", "The database was busy with other requests, and nothing was changed"),
        (DiskFull(), "busy", "The database server has no room left"),
        (PoolTimeout("no connection"), "unavailable", "PostgreSQL or Redis cannot be reached at the moment"),
    ],
)
def test_a_busy_database_is_not_called_unreachable(cause: Exception, code: str, words: str) -> None:
    error = OperationalError("it failed")
    error.__cause__ = cause
    problem = problem_of(error)
    assert problem is not None
    assert (problem.status, problem.code, "Retry-After" in problem.headers) == (503, code, True)
    assert problem.detail.startswith(words)
