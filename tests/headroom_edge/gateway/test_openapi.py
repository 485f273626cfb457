"""The gateway answers as the OpenAPI document says it does."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from jsonschema import Draft202012Validator
from schemathesis.core.result import Ok

from api.openapi import gateway_operations
from api.openapi.describe import ProblemOut
from headroom_edge.gateway.check import CheckBody, CheckItem
from headroom_edge.gateway.server import LONGEST_BODY
from tests.headroom_edge.world import ACME, BANKRUPT, MACHINE, READER, STRANGER, Answer, Client

ONE = {"tenant": "acme", "endpoint": "rides:list"}
SCHEMAS = {**gateway_operations.COMPONENTS, "Problem": {"type": "object", "required": list(ProblemOut().fields)[:5]}}


def fits(path: str, answer: Answer) -> None:
    """Its status is told of, and its body has the shape of that status."""
    (operation,) = gateway_operations.PATHS[path].values()
    told = operation["responses"][str(answer.status)]
    kind = answer.headers.get("content-type", "")
    if "content" in told:
        shape = _pointed(told["content"][kind]["schema"])
        Draft202012Validator({"$defs": {name: _pointed(one) for name, one in SCHEMAS.items()}, **shape}).validate(
            answer.json()
        )


def _pointed(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: _pointed(value) for name, value in schema.items()}
    if isinstance(schema, list):
        return [_pointed(value) for value in schema]
    return schema.replace("#/components/schemas/", "#/$defs/") if isinstance(schema, str) else schema


def test_the_fields_of_a_question_are_those_that_are_read() -> None:
    assert tuple(gateway_operations.COMPONENTS["CheckItem"]["properties"]) == CheckItem.__struct_fields__
    assert tuple(gateway_operations.COMPONENTS["Check"]["properties"]) == CheckBody.__struct_fields__


@pytest.mark.parametrize("path", ["/v1/check", "/v1/release"])
@pytest.mark.parametrize(
    ("body", "token"),
    [
        (ONE, MACHINE),
        ({**ONE, "holder": "a"}, MACHINE),
        ({"checks": [ONE] * 7 + [{"api_key": STRANGER, "endpoint": "x"}]}, MACHINE),
        ({"tenant": "bankrupt", "endpoint": "rides:list", "holder": "a"}, BANKRUPT),
        ({**ONE, "cost": 0}, MACHINE),
        (b"{", MACHINE),
        (b" " * (LONGEST_BODY + 1), MACHINE),
        (ONE, ""),
        (ONE, READER),
    ],
)
def test_questions_are_answered_as_described(gateway: Client, path: str, body: Any, token: str) -> None:
    fits(path, gateway.post(path, body, authorization=f"Bearer {token}"))


@pytest.mark.parametrize("path", ["/v1/check", "/v1/release"])
@pytest.mark.parametrize("examples", [2, pytest.param(100, marks=pytest.mark.sweep)])
def test_what_fits_the_document_is_never_malformed(gateway: Client, path: str, examples: int) -> None:
    """As acme, for which a tenant is not needed: whether one is depends on the token, which no schema can state."""
    document = {"openapi": "3.1.1", "info": {"title": "gateway", "version": "1"}, "components": {"schemas": SCHEMAS}}
    found = schemathesis.openapi.from_dict({**document, "paths": {path: gateway_operations.PATHS[path]}})
    (operation,) = (one.ok() for one in found.get_all_operations() if isinstance(one, Ok))

    @settings(max_examples=examples, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE))
    def attempt(case: schemathesis.Case[Any]) -> None:
        answer = gateway.post(path, case.body, authorization=f"Bearer {ACME}")
        assert answer.status in (200, 401, 403), (case.body, answer.body)
        fits(path, answer)

    attempt()


def test_other_methods_are_refused_as_described(gateway: Client) -> None:
    fits("/v1/check", gateway.get("/v1/check"))


@pytest.mark.parametrize("proxy", ["nginx", "traefik", "nobody"])
@pytest.mark.parametrize("key", [ACME, BANKRUPT, STRANGER])
def test_proxies_are_answered_as_described(gateway: Client, proxy: str, key: str) -> None:
    original = {"x_original_method": "GET", "x_original_uri": "/v1/rides"}
    for _ in range(6):
        fits("/v1/authz", gateway.get(f"/v1/authz?proxy={proxy}", x_api_key=key, **original))
