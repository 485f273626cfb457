"""How the OpenAPI document names things."""

from __future__ import annotations

import re
from typing import Any

from drf_spectacular.openapi import AutoSchema


class Naming(AutoSchema):
    def get_operation_id(self) -> str:
        """tenant_list_get: the view and the method, which nothing else has."""
        words = re.findall("[A-Z][a-z]*", type(self.view).__name__)
        return "_".join(word.lower() for word in (*words, self.method))

    def _get_serializer_name(self, serializer: Any, direction: Any, bypass_extensions: bool = False) -> str:
        name = super()._get_serializer_name(serializer, direction, bypass_extensions)
        return str(name).removesuffix("Out")
