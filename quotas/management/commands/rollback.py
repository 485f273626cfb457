from __future__ import annotations

import getpass
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from headroom_edge.admin.policy import with_options
from quotas.changes.commit import Proposed, Written, commit
from quotas.changes.undo import revision_rollback
from quotas.errors import Refused


class Command(BaseCommand):
    help = "Restore the configuration as of a revision. API keys, tenants' tiers, suspensions and new tenants stay."
    requires_system_checks = ()  # they would load all routes, which is slow

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("number", type=int)
        parser.add_argument("--reason", required=True)
        parser.add_argument("--author", default=getpass.getuser())
        parser.add_argument(
            "--force", action="store_true", help="apply it even if it cuts a tenant's limit by more than 10 %%"
        )
        parser.add_argument("--emergency", action="store_true", help="skip the approval; recorded in the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        permits = {name: options[name] for name in ("number", "author", "reason", "force", "emergency")}
        try:
            outcome = commit(lambda: revision_rollback(**permits))
        except Refused as error:
            raise CommandError(with_options(str(error)), returncode=2) from None
        if isinstance(outcome, Proposed):
            self.stdout.write(f"filed as {outcome.change}, which waits for an approver")
        else:
            self.stdout.write(f"rolled back as {outcome.revision}" if isinstance(outcome, Written) else "no changes")
