"""POST /v1/endpoints/import."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from quotas.models import Endpoint, Revision
from tests.quotas.world import PAY

pytestmark = pytest.mark.usefixtures("world")

DOCUMENT = """
openapi: 3.0.3
servers: [{url: 'https://api.example.com/v1'}]
paths:
  /charges: {post: {operationId: charge, tags: [payments]}}
  /cities/{cityId}: {get: {operationId: getCity, tags: [maps], x-headroom-cost: 2}}
  /odd/{a}{b}: {get: {}}
"""
WHY = {"reason": "the new API"}


def test_new_operations_are_registered_and_all_are_told(client: APIClient) -> None:
    answer = client.post("/v1/endpoints/import", {"document": DOCUMENT, **WHY})
    assert answer.status_code == 200
    assert answer["Headroom-Revision"] == str(Revision.objects.count())
    told = answer.json()
    assert told["base_path"] == "/v1"
    assert [(row["name"], row["state"]) for row in told["operations"]] == [
        (PAY, "same"),
        ("maps:get-city", "new"),
        ("", "cannot"),
    ]
    assert told["operations"][2]["problem"]
    row = Endpoint.objects.get(name="maps:get-city")
    assert (row.method, row.path, row.default_cost) == ("GET", "/v1/cities/{city_id}", 2)


def test_a_dry_run_registers_nothing(client: APIClient) -> None:
    answer = client.post("/v1/endpoints/import?dry_run=true", {"document": DOCUMENT, **WHY})
    assert [change["object"] for change in answer.json()["changes"]] == ["endpoint:maps:get-city"]
    assert Endpoint.objects.count() == 2


def test_a_choice_a_base_path_and_names(client: APIClient) -> None:
    asked = {
        "base_path": "/beta",
        "service": "partner",
        "operations": ["POST /charges", "GET /cities/{cityId}"],
        "names": {"GET /cities/{cityId}": "partner:city"},
    }
    answer = client.post("/v1/endpoints/import", {"document": DOCUMENT, **asked, **WHY})
    assert answer.status_code == 200, answer.json()
    found = dict(Endpoint.objects.exclude(name__in=[PAY, "rides:get"]).values_list("name", "path"))
    assert found == {"partner:city": "/beta/cities/{city_id}", "partner:charge": "/beta/charges"}


def test_the_same_document_again_changes_nothing(client: APIClient) -> None:
    client.post("/v1/endpoints/import", {"document": DOCUMENT, **WHY})
    before = Revision.objects.count()
    again = client.post("/v1/endpoints/import", {"document": DOCUMENT, **WHY})
    assert (again.status_code, "Headroom-Revision" in again) == (200, False)
    assert Revision.objects.count() == before


def test_a_document_that_cannot_be_read_is_refused_with_its_line(client: APIClient) -> None:
    answer = client.post("/v1/endpoints/import", {"document": "openapi: 3.0.0\npaths: *x", **WHY})
    assert (answer.status_code, answer.json()["code"]) == (422, "alias")
    assert answer.json()["errors"][0]["line"] == 2


def test_an_unknown_operation_is_refused(client: APIClient) -> None:
    answer = client.post("/v1/endpoints/import", {"document": DOCUMENT, "operations": ["GET /x"], **WHY})
    assert "The document has no operation GET /x" in answer.json()["detail"]
    assert Endpoint.objects.count() == 2


def test_it_can_be_proposed(client: APIClient) -> None:
    answer = client.post("/v1/endpoints/import", {"document": DOCUMENT, "propose": True, **WHY})
    assert answer.status_code == 202
    assert Endpoint.objects.count() == 2
