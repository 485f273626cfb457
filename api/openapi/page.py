"""The OpenAPI document at /v1/schema, and the page at /v1/docs that is made from it, without JavaScript."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.conf import settings
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import TemplateHTMLRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.openapi.describe import READING, described, problems
from api.openapi.examples import command_of
from api.openapi.introduction import SECTIONS

METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: str
    required: bool
    text: str


@dataclass(frozen=True, slots=True)
class ResponseRow:
    status: str
    text: str
    shape: str


@dataclass(frozen=True, slots=True)
class Operation:
    id: str
    method: str
    path: str
    text: str
    parameters: list[Field]
    body: list[Field]
    responses: list[ResponseRow]
    example: str


def operations(document: Mapping[str, Any]) -> dict[str, list[Operation]]:
    """Grouped by tag, which is the resource, in the order of the document."""
    groups: dict[str, list[Operation]] = defaultdict(list)
    for path, methods in document["paths"].items():
        for method in METHODS:
            if method in methods:
                groups[methods[method]["tags"][0]].append(_operation(document, path, method, methods[method]))
    return dict(groups)


def _operation(document: Mapping[str, Any], path: str, method: str, raw: Mapping[str, Any]) -> Operation:
    return Operation(
        id=raw["operationId"],
        method=method.upper(),
        path=path,
        text=raw.get("description", ""),
        parameters=[_parameter(parameter) for parameter in raw.get("parameters", ())],
        body=list(_body(document, raw.get("requestBody"))),
        responses=[_response(status, response) for status, response in raw["responses"].items()],
        example=command_of(method, path, raw),
    )


def _parameter(raw: Mapping[str, Any]) -> Field:
    return Field(raw["name"], f"{_type(raw['schema'])}, {raw['in']}", raw.get("required", False), _text(raw))


def _body(document: Mapping[str, Any], raw: Mapping[str, Any] | None) -> Iterator[Field]:
    for content in (raw or {}).get("content", {}).values():
        shape = _resolved(document, content["schema"])
        for name, field in shape.get("properties", {}).items():
            yield Field(name, _type(field), name in shape.get("required", ()), _text(field))


def _response(status: str, raw: Mapping[str, Any]) -> ResponseRow:
    shapes = [_type(content["schema"]) for content in raw.get("content", {}).values() if "schema" in content]
    return ResponseRow(status, _text(raw), ", ".join(shapes))


def _text(raw: Mapping[str, Any]) -> str:
    return str(raw.get("description", ""))


def _type(schema: Mapping[str, Any]) -> str:
    """The type in words: `string of at most 63 characters`, `list of Limit`, `one of keep, reset`."""
    if "$ref" in schema:
        return _name(schema["$ref"])
    if "enum" in schema:
        return "one of " + ", ".join(str(value) for value in schema["enum"])
    for several in ("oneOf", "anyOf", "allOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_type(one) for one in schema[several]))
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return (" or ".join(kind) if isinstance(kind, list) else str(kind)) + _bounds(schema)


def _bounds(schema: Mapping[str, Any]) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f" from {least:,} to {most:,}"
    return f" of at most {schema['maxLength']:,} characters" if "maxLength" in schema else ""


def _name(reference: str) -> str:
    return reference.rpartition("/")[2]


def _resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    component: Mapping[str, Any] = document["components"]["schemas"][_name(schema["$ref"])]
    return component


@cache
def document() -> dict[str, Any]:
    make: Any = SchemaGenerator
    schema: dict[str, Any] = make().get_schema(request=None, public=True)
    return schema


class Schema(APIView):
    @described(responses={200: dict, **problems(READING)})
    def get(self, request: Request) -> Response:
        """This document, in OpenAPI 3.1."""
        return Response(document())


@extend_schema(exclude=True)
class Docs(APIView):
    renderer_classes = [TemplateHTMLRenderer]

    def get(self, request: Request) -> Response:
        context = {
            "document": document(),
            "summary": settings.SPECTACULAR_SETTINGS["DESCRIPTION"],
            "sections": SECTIONS,
            "groups": operations(document()),
            "base": request.build_absolute_uri("/").rstrip("/"),
        }
        return Response(context, template_name="api/docs.html")
