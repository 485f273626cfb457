from __future__ import annotations

import getpass
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from quotas.changes.draft import Waiting
from quotas.changes.revisions import revision_rollback
from quotas.changes.rollout import change_file
from quotas.errors import Refused


class Command(BaseCommand):
    help = "Go back to how the configuration was after a revision; keys, memberships and suspensions stay."
    requires_system_checks = ()  # they would load every route of the API first

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("number", type=int)
        parser.add_argument("--reason", required=True)
        parser.add_argument("--author", default=getpass.getuser())
        parser.add_argument("--force", action="store_true", help="also if somebody loses more than a tenth")
        parser.add_argument("--emergency", action="store_true", help="wait for no approver; the audit notes it")

    def handle(self, *args: Any, **options: Any) -> None:
        said = {name: options[name] for name in ("number", "author", "reason", "force", "emergency")}
        try:
            revision = revision_rollback(**said)
        except Refused as error:
            raise CommandError(str(error), returncode=2) from None
        except Waiting as waiting:
            self.stdout.write(f"filed as {change_file(waiting.proposal)}, which waits for an approver")
            return
        self.stdout.write(f"rolled back as {revision}" if revision else "everything is so already")
