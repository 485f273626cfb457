"""How the OpenAPI document names things."""

from __future__ import annotations

import re
from typing import Any

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema


class Naming(AutoSchema):
    def get_operation_id(self) -> str:
        """tenant_list_get: the view and the method, which nothing else has."""
        words = re.findall("[A-Z][a-z]*", type(self.view).__name__)
        return "_".join(word.lower() for word in (*words, self.method))

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
        """Either of the two."""
        return [{name: []} for name in self.name]
