"""The JSON Schema of a policy document, for editors and pipelines: docs/policy.schema.json is this, written out.

It says what can be said of a field by itself. What depends on other fields is told by `read_document`.
"""

from typing import Any

from headroom_edge.algorithms import ALGORITHMS
from headroom_edge.algorithms.base import EXACT_MAX
from headroom_edge.algorithms.periods import PERIODS
from headroom_edge.algorithms.sliding import LONGEST_LOG
from quotas.policies.endpoint import HINT_FIELDS, LONGEST_NAME, LONGEST_PATH
from quotas.policies.fields import CHOICES, DEFAULTS
from quotas.policies.spec import METHODS, MOST_COST
from quotas.policies.validate import MOST_LIMITS

Schema = dict[str, Any]

_PART = "[a-z0-9][a-z0-9_.-]*"
_DIMENSION = "[a-z][a-z0-9_]{0,31}"
NAME: Schema = {"type": "string", "pattern": "^[a-z0-9][a-z0-9_.-]{0,62}$"}
TENANT: Schema = {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,62}$"}
ENDPOINT: Schema = {"type": "string", "pattern": f"^{_PART}:{_PART}$", "maxLength": LONGEST_NAME}
PLACE: Schema = {
    "type": "string",
    "pattern": rf"^(\*|{_PART}:(\*|{_PART}))$",
    "maxLength": LONGEST_NAME,
    "description": "service:operation, * for all, or (global policies only) service:*",
}
_WHOLE: Schema = {"type": "integer", "minimum": 1, "maximum": EXACT_MAX}
_DURATION: Schema = {"type": "string", "pattern": "^[1-9][0-9]{0,11}(ms|s|m|h|d)$"}

PARAMETERS: dict[str, Schema] = {
    "rate": {**_WHOLE, "description": "units per `per`"},
    "per": {**_DURATION, "default": "1s"},
    "burst": {**_WHOLE, "description": "units at once; token_bucket: 2 × rate by default, gcra: 1"},
    "queue": {**_WHOLE, "description": "units that may wait"},
    "max_wait": {**_DURATION, "description": "how long an admitted request may be told to wait"},
    "limit": {**_WHOLE, "description": "units per window or period, or requests in flight"},
    "window": _DURATION,
    "hold": {**_DURATION, "description": "after which a request that never ends is given up"},
    "period": {"enum": list(PERIODS)},
    "timezone": {"type": "string", "default": "tenant", "description": "an IANA name, or tenant for its own"},
    "anchor": {
        "type": ["string", "integer"],
        "description": "week: mon to sun; month: 1 to 31; year: MM-DD",
    },
}
REQUIRED: dict[str, tuple[str, ...]] = {
    "token_bucket": ("rate",),
    "gcra": ("rate",),
    "leaky_bucket": ("rate", "queue"),
    "fixed_window": ("limit", "window"),
    "sliding_log": ("limit", "window"),
    "sliding_counter": ("limit", "window"),
    "concurrency": ("limit", "hold"),
    "calendar_quota": ("limit", "period"),
}
COMMON: dict[str, Schema] = {
    "subject": {
        "type": "string",
        "pattern": rf"^{_DIMENSION}([+|]{_DIMENSION})*$",
        "default": "tenant",
        "description": "tenant, or what the caller sends: ip, key, user+ip, key|ip",
    },
    **{field: {"enum": list(choices), "default": DEFAULTS[field]} for field, choices in CHOICES.items()},
}


def limit() -> Schema:
    return {"oneOf": [_limit_by(name) for name in ALGORITHMS]}


def limit_patch() -> Schema:
    """What an override may say of a limit: any of its fields."""
    fields = {"algorithm": {"enum": list(ALGORITHMS)}, **COMMON, **PARAMETERS}
    without_defaults = {name: _without_default(field) for name, field in fields.items()}
    return {**_object(without_defaults), "minProperties": 1}


def document() -> Schema:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Headroom policy document",
        **_object(
            {
                "tiers": {"type": ["array", "null"], "items": _object({"name": NAME}, "name")},
                "endpoints": {"type": ["array", "null"], "items": {"$ref": "#/$defs/endpoint"}},
                "policies": {"type": ["array", "null"], "items": {"$ref": "#/$defs/policy"}},
            }
        ),
        "$defs": {"endpoint": _endpoint(), "policy": _policy(), "limit": limit()},
    }


def _limit_by(algorithm: str) -> Schema:
    parameters = {field: PARAMETERS[field] for field in ALGORITHMS[algorithm].fields}
    if algorithm == "sliding_log":
        parameters["limit"] = {**parameters["limit"], "maximum": LONGEST_LOG}
    fields = {"name": NAME, "algorithm": {"const": algorithm}, **parameters, **COMMON}
    return {"title": algorithm, **_object(fields, "name", "algorithm", *REQUIRED[algorithm])}


def _endpoint() -> Schema:
    hints = {name: {"type": "boolean"} for name in HINT_FIELDS} | {"clients": {"enum": ["few", "many"]}}
    fields = {
        "name": ENDPOINT,
        "method": {"enum": list(METHODS), "default": "*"},
        "path": {"type": "string", "pattern": "^(/.*)?$", "maxLength": LONGEST_PATH, "default": ""},
        "default_cost": {"type": "integer", "minimum": 1, "maximum": MOST_COST, "default": 1},
        "hints": _object(hints),
    }
    return _object(fields, "name")


def _policy() -> Schema:
    limits = {"type": "array", "minItems": 1, "maxItems": MOST_LIMITS, "items": {"$ref": "#/$defs/limit"}}
    owner = {"tier": {"anyOf": [NAME, {"type": "null"}]}, "tenant": {"anyOf": [TENANT, {"type": "null"}]}}
    return _object({"name": NAME, **owner, "endpoint": PLACE, "limits": limits}, "name", "endpoint", "limits")


def _object(properties: Schema, *required: str) -> Schema:
    found: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return found | {"required": list(required)} if required else found


def _without_default(field: Schema) -> Schema:
    return {name: value for name, value in field.items() if name != "default"}
