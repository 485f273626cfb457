"""Shapes that the policy document defines, as fields of requests and answers."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from headroom_edge.algorithms.base import shown
from quotas.policies import schema

LIMIT = {"$ref": "#/components/schemas/Limit"}
LIMITS = {"type": "array", "items": LIMIT}
PATCH = {"$ref": "#/components/schemas/LimitPatch"}
PATCHES = {"type": "object", "additionalProperties": PATCH, "propertyNames": schema.NAME}

COMPONENTS = {"Limit": schema.limit(), "LimitPatch": schema.limit_patch()}


class _Raw(serializers.Field[Any, Any, Any, Any]):
    """Read by quotas.policy, which knows the rules and says what to change."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise ValidationError(f"give an object of fields, not {shown(data)}", "type")
        return data

    def to_representation(self, value: Any) -> Any:
        return value


@extend_schema_field(LIMIT)
class LimitField(_Raw):
    pass


@extend_schema_field(PATCHES)
class LimitPatchesField(_Raw):
    pass
