from __future__ import annotations


class AdminError(Exception):
    """One sentence that says what to change; the command prints it and fails."""
