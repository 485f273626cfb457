"""Names in addresses. What cannot be a name is not found, before anything is asked."""

from __future__ import annotations

from typing import Any

from django.urls import register_converter

from quotas.models.policy import PART
from tenants.models import TENANT_NAME, WORD

PATTERNS = {
    "tenant": TENANT_NAME,
    "word": WORD,
    "endpoint": f"(?=[^/]{{3,128}}(?:/|$)){PART}:{PART}",
    "key": "[a-z0-9]{8,32}",
    "number": "[1-9][0-9]{0,17}",
}


class _Text:
    regex: str

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: object) -> str:
        return str(value)


class _Number(_Text):
    def to_python(self, value: str) -> Any:
        return int(value)


def register() -> None:
    for name, pattern in PATTERNS.items():
        register_converter(type(name, (_Number if name == "number" else _Text,), {"regex": pattern}), name)


def schema_of(name: str) -> dict[str, Any]:
    """For the OpenAPI document."""
    if name == "number":
        return {"type": "integer", "minimum": 1, "maximum": 10**18 - 1}
    if name == "endpoint":
        return {"type": "string", "pattern": f"^{PART}:{PART}$", "maxLength": 128}
    return {"type": "string", "pattern": f"^{PATTERNS[name]}$"}
