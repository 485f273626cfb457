from __future__ import annotations

import getpass
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from quotas.services.errors import Refused
from quotas.services.revisions import revision_rollback


class Command(BaseCommand):
    help = "Go back to how the configuration was after a revision; keys, memberships and suspensions stay."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("number", type=int)
        parser.add_argument("--reason", required=True)
        parser.add_argument("--author", default=getpass.getuser())
        parser.add_argument("--force", action="store_true", help="even if it takes more than a tenth from somebody")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            revision = revision_rollback(
                number=options["number"], author=options["author"], reason=options["reason"], force=options["force"]
            )
        except Refused as error:
            raise CommandError(str(error), returncode=2) from None
        self.stdout.write(f"rolled back as {revision}" if revision else "everything is so already")
