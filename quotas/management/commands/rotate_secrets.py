from __future__ import annotations

import getpass
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from headroom_edge.algorithms.base import counted
from quotas.secret_rotation import KeyState, key_states, keys_advance, keys_renew, keys_rewrap, keys_waiting
from tenants.models import KeyPurpose

NOTHING = "All stored keys are already encrypted under the present SECRET_KEY."


class Command(BaseCommand):
    help = (
        "Finish a change of SECRET_KEY: encrypt the stored keys under the new one. Set SECRET_KEY to the new value and "
        "SECRET_KEY_FALLBACKS to the old one first. Nothing is interrupted, and running it twice does no harm."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--new-keys",
            action="store_true",
            help="after a leak: also make new versions of the stored keys, and move everything to them step by step",
        )
        parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")

        parser.add_argument(
            "--list", action="store_true", help="name every key and token that --new-keys waits for, and change nothing"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["list"]:
            self.stdout.write("\n".join(keys_waiting()) or "No key or token is waited for.")
            return
        states = key_states()
        if options["dry_run"]:
            self._would(states, is_new=options["new_keys"])
            return
        done = keys_rewrap(author=getpass.getuser())
        stored = counted(done, "stored key is", "stored keys are")
        self.stdout.write(f"{stored} now encrypted under the new SECRET_KEY." if done else NOTHING)
        if options["new_keys"]:
            for row in keys_renew(author=getpass.getuser()):
                self.stdout.write(f"{row.purpose}: version {row.version} is added.")
        for sentence in [*keys_advance(), *_fallbacks()] or ["nothing"]:
            self.stdout.write(f"What is left: {sentence}.")

    def _would(self, states: list[KeyState], *, is_new: bool) -> None:
        former = sum(not state.is_current for state in states)
        stored = counted(former, "stored key", "stored keys")
        self.stdout.write(f"{stored} would be encrypted under the new SECRET_KEY." if former else NOTHING)
        for purpose in KeyPurpose.values:
            versions = [state.row.version for state in states if state.row.purpose == purpose]
            if len(versions) > 1:
                self.stdout.write(f"{purpose}: moving to version {max(versions)} would go on.")
            elif is_new:
                self.stdout.write(f"{purpose}: version {max(versions) + 1} would be added.")


def _fallbacks() -> list[str]:
    if not settings.SECRET_KEY_FALLBACKS:
        return []
    hours = settings.SESSION_COOKIE_AGE // 3600
    return [
        f"in {hours} hours, when every session signed with the former SECRET_KEY has ended, remove SECRET_KEY_FALLBACKS"
    ]
