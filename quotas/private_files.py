"""Files that only their owner may read: passwords and keys."""

from __future__ import annotations

from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """In place of a file that is there, which others may be able to read."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)
