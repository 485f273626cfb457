"""The JSON Schema of a policy document, for editors and pipelines: docs/policy.schema.json is its output.

The fields are declared beside the code that reads them: the parameters in headroom_edge.algorithms, the rest in
the modules that are imported here. A schema describes each field by itself; `read_document` also checks what
depends on other fields.
"""

from typing import Any

from headroom_edge.algorithms import ALGORITHMS, PARAMETERS
from headroom_edge.algorithms.adaptive_concurrency import AdaptiveConcurrency
from headroom_edge.algorithms.concurrency import Concurrency
from quotas.policies.adapt import ADAPTING
from quotas.policies.endpoint import ENDPOINT_FIELDS
from quotas.policies.limit_codec import COMMON_FIELDS, NEVER, NEVER_LEASED
from quotas.policies.limit_codec import NAME as NAME
from quotas.policies.tier import TIER_FIELDS
from quotas.policies.validate import POLICY_FIELDS
from quotas.policies.validate import TENANT as TENANT

Schema = dict[str, Any]

ENDPOINT: Schema = ENDPOINT_FIELDS["name"]


def limit() -> Schema:
    return {"oneOf": [_limit_by(name) for name in ALGORITHMS]}


def limit_patch() -> Schema:
    """What an override may change of a limit: any of its fields."""
    parameters = {name: parameter.schema() for name, parameter in PARAMETERS.items()}
    fields = {"algorithm": {"enum": list(ALGORITHMS)}, **COMMON_FIELDS, **parameters}
    without_defaults = {name: _without_default(field) for name, field in fields.items()}
    return {**_object(without_defaults), "minProperties": 1}


def document() -> Schema:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Headroom policy document",
        **_object(
            {
                "tiers": {"type": ["array", "null"], "items": _object(TIER_FIELDS, "name")},
                "endpoints": {"type": ["array", "null"], "items": {"$ref": "#/$defs/endpoint"}},
                "policies": {"type": ["array", "null"], "items": {"$ref": "#/$defs/policy"}},
            }
        ),
        "$defs": {
            "endpoint": _object(ENDPOINT_FIELDS, "name"),
            "policy": _object(POLICY_FIELDS, "name", "endpoint", "limits"),
            "limit": limit(),
        },
    }


def _limit_by(name: str) -> Schema:
    parameters = ALGORITHMS[name].parameters
    required = [parameter.name for parameter in parameters if parameter.is_required]
    schemas = {parameter.name: parameter.schema() for parameter in parameters}
    fields = {"name": NAME, "algorithm": {"const": name}, **schemas, **COMMON_FIELDS}
    if name in (Concurrency.name, AdaptiveConcurrency.name):  # what is in flight has no cost
        fields["unit"] = {"enum": ["requests"], "default": "requests"}
    if name in NEVER_LEASED:
        fields["lease"] = {"const": NEVER, "description": f"{name} is never leased"}
    if name not in ADAPTING:
        del fields["adapt"]
    return {"title": name, **_object(fields, "name", "algorithm", *required)}


def _object(properties: Schema, *required: str) -> Schema:
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | {"required": list(required)} if required else schema


def _without_default(field: Schema) -> Schema:
    return {name: value for name, value in field.items() if name != "default"}
