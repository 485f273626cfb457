"""The demo as several tests look at it."""

from __future__ import annotations

from django.core.management import call_command

from tests.database import kept


@kept
def make_demo() -> None:
    """Without any traffic of its past."""
    call_command("seed", hours=0, verbosity=0)
