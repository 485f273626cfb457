"""Last touches to the OpenAPI document: what the generator cannot know."""

from __future__ import annotations

from typing import Any

from api.inputs import Strict
from api.v1 import enforcing
from api.v1.examples import body_of
from api.v1.introduction import markdown
from api.v1.shapes import COMPONENTS


def finish(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    schemas = result["components"]["schemas"]
    for name in _strict_names(Strict):
        if name in schemas:
            schemas[name]["additionalProperties"] = False
    schemas |= COMPONENTS | enforcing.COMPONENTS
    for operation in (one for methods in result["paths"].values() for one in methods.values()):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            content["example"] = body_of(operation["operationId"])
    result["paths"] |= enforcing.PATHS
    result["info"]["description"] = markdown(result["info"]["description"])
    return result


def _strict_names(kind: type[Strict]) -> set[str]:
    """As the components are named: NewTenant is read as NewTenantRequest."""
    found = {f"{kind.__name__}Request"}
    return found.union(*(_strict_names(below) for below in kind.__subclasses__()))
