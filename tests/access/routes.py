"""Every route that Django serves, by its url name, with an address at which it answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE")
# One of these fits any parameter of any route.
VALUES = ("acme", "payments:charge", "tenant:acme", "0123456789abcdef", "1", "1/change", "x")


@dataclass(frozen=True, slots=True)
class Route:
    name: str  # with its namespace
    path: str  # with <parameters>
    parameters: Mapping[str, Any]  # name → converter
    view: Any

    def address(self, values: Mapping[str, str] | None = None) -> str:
        chosen = {name: _fitting(converter) for name, converter in self.parameters.items()} | dict(values or {})
        return re.sub(r"<(?:\w+:)?(\w+)>", lambda match: chosen[match[1]], self.path)

    def __str__(self) -> str:
        return self.name


def routes() -> list[Route]:
    """Of Django's admin, whose pages share one row, the first few."""
    found = list(_within(get_resolver(), "", "", {}))
    admin = [route for route in found if route.name.startswith("admin:")]
    return [route for route in found if route not in admin[5:]]


def _within(resolver: URLResolver, namespace: str, prefix: str, above: Mapping[str, Any]) -> Iterator[Route]:
    for pattern in resolver.url_patterns:
        path = prefix + str(pattern.pattern)
        converters = {**above, **pattern.pattern.converters}
        if isinstance(pattern, URLResolver):
            inner = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from _within(pattern, inner, path, converters)
        elif isinstance(pattern, URLPattern):
            yield Route(
                f"{namespace}{pattern.name or pattern.lookup_str}", f"/{_plain(path)}", converters, pattern.callback
            )


def _plain(path: str) -> str:
    """Django's admin has a few patterns that are regular expressions."""
    return re.sub(r"\(\?P<(\w+)>[^)]*\)", "auth", path).replace("$", "").replace("^", "")


def _fitting(converter: Any) -> str:
    return next(value for value in VALUES if re.fullmatch(converter.regex, value))
