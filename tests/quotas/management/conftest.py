from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import call_command

Run = Callable[..., str]


@pytest.fixture
def run() -> Run:
    """Runs a command and gives what it prints."""

    def manage(*words: str) -> str:
        out = StringIO()
        call_command(*words, stdout=out)
        return out.getvalue()

    return manage
