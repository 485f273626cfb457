"""Hooks of the OpenAPI generator: names of operations and components, and what the generator cannot know."""

from __future__ import annotations

import re
from typing import Any

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from rest_framework import serializers

from api.inputs import COMPONENTS, Strict
from api.openapi import gateway_operations, patterns
from api.openapi.examples import body_of
from api.openapi.introduction import markdown


class Naming(AutoSchema):
    def get_operation_id(self) -> str:
        """The view and the method, such as tenant_list_get, which is unique."""
        words = re.findall("[A-Z][a-z]*", type(self.view).__name__)
        return "_".join(word.lower() for word in (*words, self.method))

    def _map_serializer_field(self, field: Any, direction: Any, bypass_extensions: bool = False) -> Any:
        schema = super()._map_serializer_field(field, direction, bypass_extensions)  # type: ignore[no-untyped-call]
        return {**schema, **_stated(field)} if direction == "request" else schema

    def _get_serializer_name(self, serializer: Any, direction: Any, bypass_extensions: bool = False) -> str:
        name = super()._get_serializer_name(serializer, direction, bypass_extensions)
        return str(name).removesuffix("Out")


class Gates(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call] # registers itself
    target_class = "access.authentication.GateAuthentication"
    name = ["token", "session"]

    def get_security_definition(self, auto_schema: Any) -> list[dict[str, Any]]:
        return [
            {"type": "http", "scheme": "bearer", "description": "A machine's token, or a tenant's API key: `hr_…`."},
            {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME},
        ]

    def get_security_requirement(self, auto_schema: Any) -> list[dict[str, list[Any]]]:
        """Either of the two is enough."""
        return [{name: []} for name in self.name]


def _stated(field: Any) -> dict[str, Any]:
    """What the field accepts and the generator does not know: its own `stated`, or the pattern of a text."""
    if (stated := getattr(field, "stated", None)) is not None:
        return dict(stated)
    # The pattern of a RegexField is one of its validators, which the generator knows.
    if not isinstance(field, serializers.CharField) or isinstance(field, serializers.RegexField):
        return {}
    return {"pattern": patterns.SAID if field.trim_whitespace and not field.allow_blank else patterns.TEXT}


def finish(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    schemas = result["components"]["schemas"]
    for name, kind in _strict_kinds(Strict).items():
        if name in schemas:
            schemas[name] |= {"additionalProperties": False, **kind.rules}
    schemas |= COMPONENTS | gateway_operations.COMPONENTS
    for operation in (operation for methods in result["paths"].values() for operation in methods.values()):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            content["example"] = body_of(operation["operationId"])
    result["paths"] |= gateway_operations.PATHS
    result["info"]["description"] = markdown(result["info"]["description"])
    return result


def _strict_kinds(kind: type[Strict]) -> dict[str, type[Strict]]:
    """By component name: the generator calls the request serializer NewTenant NewTenantRequest."""
    kinds = {f"{kind.__name__}Request": kind}
    for below in kind.__subclasses__():
        kinds |= _strict_kinds(below)
    return kinds
