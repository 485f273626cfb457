"""Makes the database ready for the programs, one step after another: `python -m config.prepare migrate owner limits`.

One process for all steps, because each would load Django again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

import django
from django.conf import settings
from django.core.management import call_command

from config import env

COMMANDS: Final[Mapping[str, list[str]]] = {
    "migrate": ["migrate", "--no-input", "--verbosity", "0"],
    "seed": ["seed", "--recent"],
    "owner": ["first_owner"],
    "limits": ["own_limits"],
}
# The modules of these steps, for config.parked.
MODULES: Final = (
    "config.loaded",
    "tenants.management.commands.migrate",
    "quotas.management.commands.own_limits",
    "quotas.management.commands.first_owner",
)


def needed_steps() -> list[str]:
    """In this order: the seed fills an empty database only."""
    steps = ["migrate"]
    if settings.HEADROOM_DEMO:
        steps.append("seed")
    # The owner of an external database creates the accounts.
    if settings.HEADROOM_DEMO or not env.text("DATABASE_URL", ""):
        steps.append("owner")
    return [*steps, "limits"]


def main(steps: list[str]) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    with env.one_line_errors():
        django.setup()
        for place, step in enumerate(steps, 1):
            sys.stdout.write(f"step {place} of {len(steps)}: {step}\n")
            sys.stdout.flush()
            call_command(*COMMANDS[step])


if __name__ == "__main__":
    main(sys.argv[1:])
