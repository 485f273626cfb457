"""Patterns of names in paths. Must not import a framework, because the settings import it."""

from __future__ import annotations

from typing import Any

from quotas.policies import schema

MOST_NUMBER = 10**18 - 1
_KEY = "[a-z0-9]{8,32}"
_ABOUT = "all|(tenant|endpoint|limit):[a-z0-9:_.~-]{1,128}"

PATTERNS = {
    "tenant": schema.TENANT["pattern"].strip("^$"),
    "word": schema.NAME["pattern"].strip("^$"),
    "endpoint": "(?=[^/]{3,128}(?:/|$))" + schema.ENDPOINT["pattern"].strip("^$"),
    "key": _KEY,
    "number": "[1-9][0-9]{0,17}",
    "about": _ABOUT.replace("(", "(?:"),
}
# The same patterns for the OpenAPI document.
SCHEMAS: dict[str, dict[str, Any]] = {
    "tenant": schema.TENANT,
    "word": schema.NAME,
    "endpoint": schema.ENDPOINT,
    "key": {"type": "string", "pattern": f"^{_KEY}$"},
    "number": {"type": "integer", "minimum": 1, "maximum": MOST_NUMBER},
    "about": {"type": "string", "pattern": f"^({_ABOUT})$"},
}
