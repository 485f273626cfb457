"""The API keys of the demo's tenants, kept for its live traffic. Their file is readable by the owner alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from quotas.private_files import write_private


def keep_keys(path: Path, keys: Mapping[str, str]) -> None:
    """Adds them: tenant → key."""
    write_private(path, json.dumps({**kept_keys(path), **keys}))


def kept_keys(path: Path) -> dict[str, str]:
    """Empty where the demo was not filled in on this machine."""
    return dict(json.loads(path.read_text() or "{}")) if path.exists() else {}
