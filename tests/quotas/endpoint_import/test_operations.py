"""OpenAPI documents from anywhere: their operations are read, everything else is left alone or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quotas.endpoint_import import tree
from quotas.endpoint_import.operations import ApiDocument, Operation, essence, read_api, slug
from quotas.policies.endpoint import path_template
from quotas.policies.problems import Problem
from tests.sweeps import examples

YAML = """\
openapi: 3.0.3
info: {title: Rider API, version: '1.14'}
servers:
  - url: https://api.example.com/{stage}/v1/
    variables: {stage: {default: rider}}
  - url: /beta
paths:
  /rides/{rideId}/receipt:
    parameters: [{$ref: 'common.yaml#/ride'}]
    get:
      operationId: getReceipt
      tags: [Rider, other]
      x-headroom-cost: 2
      responses: {'200': {content: {application/json: {schema: {$ref: 'https://example.com/x.json'}}}}}
  /cities: {get: {}}
"""


def read(text: str, base: str | None = None) -> ApiDocument:
    found = read_api(text, base)
    assert isinstance(found, ApiDocument), found
    return found


def problem(text: str, base: str | None = None) -> Problem:
    found = read_api(text, base)
    assert isinstance(found, list), found
    return found[0]


def document(paths: dict[str, Any], **more: Any) -> str:
    return json.dumps({"openapi": "3.1.0", "paths": paths, **more})


def only(text: str) -> Operation:
    [one] = read(text).operations
    return one


def test_operations_are_read_with_the_base_path_of_the_first_server() -> None:
    found = read(YAML)
    assert (found.title, found.version, found.dialect) == ("Rider API", "1.14", "OpenAPI 3.0.3")
    assert (found.bases, found.base) == (("/rider/v1", "/beta"), "/rider/v1")
    receipt, cities = found.operations
    assert (receipt.key, receipt.template) == ("GET /rides/{rideId}/receipt", "/rider/v1/rides/{ride_id}/receipt")
    assert (receipt.tag, receipt.operation_id, receipt.cost, receipt.line) == ("Rider", "getReceipt", 2, 10)
    assert (cities.template, cities.cost, found.unnamed) == ("/rider/v1/cities", None, 1)


def test_another_base_path_may_be_chosen() -> None:
    assert [one.template for one in read(YAML, "").operations][1] == "/cities"
    assert [one.template for one in read(YAML, "/eu/v2/").operations][1] == "/eu/v2/cities"
    assert problem(YAML, "no slash").path == "base_path"


def test_json_and_yaml_are_read_alike() -> None:
    paths = {"/a/{Id}": {"get": {"operationId": "a", "tags": ["t"], "x-headroom-cost": 3}}}
    text = document(paths)
    as_yaml = "openapi: 3.1.0\npaths:\n  /a/{Id}:\n    get: {operationId: a, tags: [t], x-headroom-cost: 3}\n"
    assert [one.key for one in read(text).operations] == [one.key for one in read(as_yaml).operations]
    assert only(text).template == only(as_yaml).template == "/a/{id}"
    assert only(text).cost == only(as_yaml).cost == 3


def test_swagger_2_has_its_base_path() -> None:
    text = "swagger: '2.0'\nbasePath: /api/\npaths: {/a: {post: {operationId: x}}}"
    assert (read(text).dialect, only(text).template) == ("Swagger 2.0", "/api/a")
    assert only(text.replace("'2.0'", "2.0")).template == "/api/a"


def test_an_operation_may_have_a_server_of_its_own() -> None:
    paths = {"/a": {"servers": [{"url": "/item"}], "get": {}, "put": {"servers": [{"url": "https://x.example/own"}]}}}
    found = read(document(paths, servers=[{"url": "/all"}]))
    assert {one.method: one.template for one in found.operations} == {"GET": "/item/a", "PUT": "/own/a"}


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("/a/{userId}/b/{user_id}", "/a/{user_id}/b/{user_id_2}"),
        ("/a/{2fa}", "/a/{v2fa}"),
        ("/a/{ÄÖ}", "/a/{value}"),
        ("/a/", "/a/"),
        ("/", "/"),
    ],
)
def test_variables_get_names_that_an_endpoint_can_have(path: str, template: str) -> None:
    assert only(document({path: {"get": {}}})).template == template


@pytest.mark.parametrize("path", ["/a/{b}.json", "/a/{b}-{c}", "/a b", "/a?x=1", "/$metadata", "a", "/a//b", "/%41"])
def test_a_path_that_is_no_template_is_left_out_with_its_reason(path: str) -> None:
    one = only(document({path: {"get": {}}}))
    assert one.template == ""
    assert one.problem.endswith(".")


@pytest.mark.parametrize("cost", [0, -1, 1.5, "2", True, [], 10**10])
def test_a_cost_that_is_none_is_said(cost: object) -> None:
    one = only(document({"/a": {"get": {"x-headroom-cost": cost}}}))
    assert "x-headroom-cost" in one.problem


def test_trace_cannot_be_registered() -> None:
    assert only(document({"/a": {"trace": {}}})).problem == "TRACE requests cannot be registered."


def test_references_of_path_items_are_followed_within_the_document_only() -> None:
    items = {"Shared": {"get": {"operationId": "shared"}}}
    text = document({"/a": {"$ref": "#/components/pathItems/Shared"}}, components={"pathItems": items})
    assert only(text).operation_id == "shared"
    assert [one.key for one in read(document({"/a": {"$ref": "#/paths/~1b"}, "/b": {"get": {}}})).operations] == [
        "GET /a",
        "GET /b",
    ]


@pytest.mark.parametrize(
    "target",
    [
        "https://example.com/x.yaml#/a",
        "file:///etc/passwd",
        "other.yaml",
        "//x",
        "#/info/x",
        "#/paths/~1b",
        "#/paths/~1a",
        "#",
        "",
        7,
    ],
)
def test_other_references_of_path_items_are_refused(target: object) -> None:
    found = problem(document({"/a": {"$ref": target}}))
    assert found.code == "reference"


def test_a_long_chain_of_references_is_refused() -> None:
    items = {f"a{at}": {"$ref": f"#/components/pathItems/a{at + 1}"} for at in range(50)}
    found = problem(document({"/a": {"$ref": "#/components/pathItems/a0"}}, components={"pathItems": items}))
    assert found.message.startswith("more than 8 references follow each other")


def test_a_base_of_the_documents_own_can_be_sent_back_even_if_no_path_can_have_it() -> None:
    text = json.dumps({"swagger": "2.0", "basePath": "no path", "paths": {"/a": {"get": {}}}})
    assert only(text).problem == read(text, "no path").operations[0].problem != ""
    assert problem(text, "neither").code == "path"


def test_a_refusal_has_its_line() -> None:
    text = "openapi: 3.0.0\npaths:\n  /a:\n    $ref: 'http://127.0.0.1:1/x'\n"
    assert (problem(text).code, problem(text).line) == ("reference", 4)
    assert problem("openapi: 3.0.0\npaths:\n  - : [").line is not None
    assert (problem('{"openapi": "3.0.0",\n "paths": {]}').code, problem('{"a":\n]').line) == ("json", 2)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("a\x00b", "text"),
        ("[]", "type"),
        ("just text", "type"),
        ("- a", "type"),
        ("a: 1", "version"),
        ("openapi: 4.0.0\npaths: {}", "version"),
        ("swagger: '1.2'\npaths: {}", "version"),
        ("openapi: 3.0.0", "empty"),
        ("openapi: 3.0.0\npaths: {}", "empty"),
        ("openapi: 3.0.0\npaths: [1]", "empty"),
        ("openapi: 3.0.0\npaths: {x-y: {get: {}}}", "empty"),
        ("a: &x 1\nb: *x", "alias"),
        ("a: &x 1", "alias"),
        ("a: *x", "alias"),
        ("a: !!python/object/apply:os.system [ls]", "tag"),
        ("openapi: 3.0.0\n---\nopenapi: 3.0.0", "several"),
        ("openapi: 3.0.0\nopenapi: 3.0.0", "duplicate_key"),
        ("openapi: 3.0.0\npaths: {/a: {}, /a: {}}", "duplicate_key"),
        ('{"openapi": "3.0.0", "openapi": "3.0.0"}', "duplicate_key"),
        ("openapi: 3.0.0\npaths: {? [a] : b}", "type"),
        ("x: " + "[" * 100_000, "depth"),
        ("- " * 100_000, "depth"),
        ('{"a":' * 100_000, "depth"),
        ("x" * (tree.MOST_BYTES + 1), "size"),
        ("a: [" + "1," * (tree.MOST_VALUES + 1) + "]", "size"),
        ("1" * 5_000, "type"),
        ('{"openapi": ' + "1" * 5_000 + "}", "json"),
    ],
)
def test_what_is_no_such_document_is_refused_with_a_sentence(text: str, code: str) -> None:
    found = problem(text)
    assert (found.code, found.message[:1]) == (code, found.message[:1].strip())
    assert found.sentence.endswith((".", "?"))


def test_a_document_has_so_many_operations_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quotas.endpoint_import.operations.MOST_OPERATIONS", 3)
    paths: dict[str, Any] = {f"/a{n}": {"get": {}} for n in range(3)}
    assert len(read(document(paths)).operations) == 3
    assert problem(document({**paths, "/b": {"get": {}}})).code == "size"


def test_half_of_a_character_in_json_cannot_reach_a_page() -> None:
    info, path, name = '{"title": "\\ud800\\u0000"}', '"/\\ud800"', '{"operationId": "\\udfff"}'
    text = f'{{"openapi": "3.0.0", "info": {info}, "paths": {{{path}: {{"get": {name}}}}}}}'
    read(text).title.encode()
    only(text).path.encode()


@pytest.mark.parametrize(
    ("text", "slugged"),
    [
        ("getRideById", "get-ride-by-id"),
        ("HTTPServer_error", "http-server-error"),
        ("Rider & Co.", "rider-co"),
        ("__", ""),
        ("ümlaut", "mlaut"),
    ],
)
def test_names_become_those_of_endpoints(text: str, slugged: str) -> None:
    assert slug(text) == slugged


def test_the_essence_of_a_document_reads_like_the_document() -> None:
    items = {"S": {"get": {"tags": ["x"]}}}
    paths = {
        "/a/{Id}": {"get": {"operationId": "a", "x-headroom-cost": 2}, "trace": {}},
        "/b": {"$ref": "#/components/pathItems/S", "servers": [{"url": "/own"}]},
        "/c": {"get": {"x-headroom-cost": "much"}},
        "/d{x}": {"get": {}},
    }
    text = document(
        paths, components={"pathItems": items}, servers=[{"url": "/v1"}, {"url": "/v2"}], info={"title": "T"}
    )
    assert essence(read(essence(read(text)))) == essence(read(text))
    first, again = read(text), read(essence(read(text)))
    assert [(o.key, o.template, o.cost, bool(o.problem)) for o in first.operations] == [
        (o.key, o.template, o.cost, bool(o.problem)) for o in again.operations
    ]
    assert (first.bases, first.base, first.title) == (again.bases, again.base, again.title)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)
fields = st.sampled_from(["$ref", "servers", "operationId", "tags", "x-headroom-cost", "get", "post", "trace", "url"])
items = st.dictionaries(fields, st.dictionaries(fields, values, max_size=3) | values, max_size=3)
documents = st.fixed_dictionaries(
    {"paths": st.dictionaries(st.text(max_size=20).map(lambda text: "/" + text), items, max_size=3) | values},
    optional={
        "openapi": st.sampled_from(["3.0.0", "3.1.0"]) | values,
        "swagger": st.just("2.0") | values,
        "servers": st.lists(st.dictionaries(st.sampled_from(["url", "variables"]), values), max_size=3) | values,
        "basePath": st.text(max_size=20) | values,
        "info": values,
        "components": values | st.fixed_dictionaries({"pathItems": st.dictionaries(st.text(), items, max_size=2)}),
    },
)


@settings(max_examples=examples(300))
@given(documents, st.none() | st.text(max_size=20))
def test_whatever_a_document_has_it_is_read_or_refused(raw: Any, base: str | None) -> None:
    _is_sound(read_api(json.dumps(raw), base))


@settings(max_examples=examples(300))
@given(st.text(max_size=200) | st.text(alphabet="[]{}:-,&*!|>'\"%@ \n\tab?#", max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    _is_sound(read_api(text))
    _is_sound(read_api(f"openapi: 3.0.0\npaths:\n  {text}"))
    _is_sound(read_api(f'{{"openapi": "3.0.0", "paths": {{"/a": {{"get": {{}}}}, {text}}}}}'))


def _is_sound(found: ApiDocument | list[Problem]) -> None:
    if isinstance(found, list):
        assert found
        assert all(one.message for one in found)
        return
    for one in found.operations:
        assert bool(one.template) != bool(one.problem)
        assert path_template(one.template) == one.template
    assert essence(read(essence(found), found.base)) == essence(found)
