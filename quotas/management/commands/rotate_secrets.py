from __future__ import annotations

import getpass
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from quotas.secret_rotation import key_states, keys_rewrap


class Command(BaseCommand):
    help = (
        "Finish a change of SECRET_KEY: encrypt the stored keys under the new one. Set SECRET_KEY to the new value and "
        "SECRET_KEY_FALLBACKS to the old one first. Nothing is interrupted, and running it twice does no harm."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        former = sum(not state.is_current for state in key_states())
        if options["dry_run"]:
            self.stdout.write(f"{former} stored keys would be encrypted under the new SECRET_KEY.")
            return
        done = keys_rewrap(author=getpass.getuser())
        self.stdout.write(f"{done} stored keys are now encrypted under the new SECRET_KEY.")
        self.stdout.write(_what_is_left())


def _what_is_left() -> str:
    if not settings.SECRET_KEY_FALLBACKS:
        return "Nothing is left to do."
    hours = settings.SESSION_COOKIE_AGE // 3600
    return (
        f"What is left: in {hours} hours, when every session signed with the former SECRET_KEY has ended, "
        "remove SECRET_KEY_FALLBACKS."
    )
