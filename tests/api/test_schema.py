"""The OpenAPI document and the page made of it."""

from __future__ import annotations

import json
import re

import pytest
from django.urls import URLResolver, get_resolver
from jsonschema import Draft202012Validator
from rest_framework.test import APIClient

from api.openapi.introduction import SECTIONS
from api.openapi.page import document, operations
from headroom_edge import AsyncLimiter
from headroom_edge.gateway.server import Gateway

pytestmark = pytest.mark.django_db


def test_it_is_openapi_3_1_and_its_shapes_are_json_schemas(client: APIClient) -> None:
    answer = client.get("/v1/schema").json()
    assert answer["openapi"].startswith("3.1.")
    for name, schema in answer["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        assert not name.endswith("Out")


def test_every_route_is_in_it() -> None:
    (mounted,) = (
        part for part in get_resolver().url_patterns if isinstance(part, URLResolver) and part.namespace == "v1"
    )
    routes = {re.sub(r"<\w+:(\w+)>", r"{\1}", f"/v1/{route.pattern}") for route in mounted.url_patterns}
    assert set(document()["paths"]) == routes - {"/v1/docs"} | served_by_the_gateway()


def served_by_the_gateway() -> frozenset[str]:
    return Gateway(AsyncLimiter.from_url("redis://127.0.0.1:1/0")).paths


def test_every_operation_has_a_name_of_its_own_and_says_what_it_does_and_how_it_refuses() -> None:
    found = [one for group in operations(document()).values() for one in group]
    assert len({one.id for one in found}) == len(found)
    for one in found:
        assert one.text, one.id
        # A check that denies is a decision, so its own status is 200.
        refusals = {"401", "403", "503"} | (set() if one.path in ("/v1/check", "/v1/release") else {"429"})
        assert refusals <= {answer.status for answer in one.responses}, one.id


def test_every_example_fits_its_schema() -> None:
    for methods in document()["paths"].values():
        for operation in methods.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                schema = {"$defs": document()["components"]["schemas"], **content["schema"]}
                pointed = json.loads(json.dumps(schema).replace("#/components/schemas/", "#/$defs/"))
                Draft202012Validator(pointed).validate(content["example"])


@pytest.mark.parametrize(
    ("path", "dry"),
    [
        ("/v1/tenants/{name}/move", "MoveDryRun"),
        ("/v1/tenants/move", "MovesDryRun"),
        ("/v1/tenants/suspend", "ManyDryRun"),
    ],
)
def test_each_operation_has_the_dry_run_that_it_returns(path: str, dry: str) -> None:
    answer = document()["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    either = document()["components"]["schemas"][answer["$ref"].rpartition("/")[2]]
    assert {"$ref": f"#/components/schemas/{dry}"} in either["oneOf"]


def test_every_change_can_be_rehearsed_and_says_why() -> None:
    asking = {"/v1/explain", "/v1/document/validate", "/v1/document/plan"} | served_by_the_gateway()
    for group in operations(document()).values():
        for one in group:
            if one.method != "GET" and one.path not in asking:
                named = {field.name for field in (*one.parameters, *one.body)}
                assert {"dry_run", "reason"} <= named, one.id


def test_the_page_shows_every_operation_and_needs_nothing_else(client: APIClient) -> None:
    answer = client.get("/v1/docs", headers={"Accept": "text/html"})
    page = answer.content.decode()
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    assert "<script" not in page
    assert "style=" not in page
    assert not re.search(r"(src|href)=\"(https?:)?//", page)
    for group in operations(document()).values():
        assert all(f'id="{one.id}"' in page for one in group)
    assert "integer from 1 to 200, query" in page
    assert "string of at most 500 characters" in page
    for section in SECTIONS:
        assert f"<h2>{section.title}</h2>" in page


def test_a_person_who_is_not_signed_in_is_led_to_the_login_and_a_program_is_told() -> None:
    anonymous = APIClient()
    led = anonymous.get("/v1/docs", headers={"Accept": "text/html"})
    assert (led.status_code, led["Location"]) == (302, "/login?next=/v1/docs")
    assert anonymous.get("/v1/docs").status_code == 401
    assert anonymous.get("/v1/tiers", headers={"Accept": "text/html"}).status_code == 401
