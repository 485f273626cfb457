"""Path converters for names. A path that cannot be a name gets 404 before any query is made."""

from __future__ import annotations

from typing import Any

from django.urls import register_converter

from api.v1.patterns import PATTERNS


class _Text:
    regex: str

    def to_python(self, value: str) -> Any:
        return value

    def to_url(self, value: object) -> str:
        return str(value)


class _Number(_Text):
    def to_python(self, value: str) -> int:
        return int(value)


def register() -> None:
    for name, pattern in PATTERNS.items():
        register_converter(type(name, (_Number if name == "number" else _Text,), {"regex": pattern}), name)
