from __future__ import annotations

import getpass
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from quotas.services.errors import Refused
from quotas.services.tokens import token_issue, token_revoke
from tenants.access import READ, SCOPES
from tenants.models import ApiToken, Role


class Command(BaseCommand):
    help = "Tokens with which machines use the API: create one (it is shown once), list them, revoke one."
    requires_system_checks = ()  # they would load every route of the API first

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="make one and show it, once")
        create.add_argument("label", help="what it is for")
        create.add_argument("--role", choices=Role.values, default=Role.VIEWER.value)
        create.add_argument("--scope", action="append", choices=SCOPES, help="may be given several times; read if none")
        create.add_argument("--tenant", metavar="NAME", help="the one that a token of the role tenant sees")
        create.add_argument("--reason", default="made on the command line")
        actions.add_parser("list", help="all of them, newest first")
        revoke = actions.add_parser("revoke", help="end one for good")
        revoke.add_argument("key_id", help="as list shows it")
        revoke.add_argument("--reason", default="revoked on the command line")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            {"create": self._create, "list": self._list, "revoke": self._revoke}[action](options)
        except Refused as refusal:
            raise CommandError(f"{refusal}.") from None

    def _create(self, options: dict[str, Any]) -> None:
        issued = token_issue(
            label=options["label"],
            role=options["role"],
            scopes=options["scope"] or [READ],
            tenant=options["tenant"],
            author=getpass.getuser(),
            reason=options["reason"],
        )
        self.stderr.write("Keep it: it is not shown again.")
        self.stdout.write(str(issued.text))

    def _list(self, options: dict[str, Any]) -> None:
        for token in ApiToken.objects.select_related("tenant"):
            ended = f" revoked {token.revoked_at:%Y-%m-%d %H:%M:%S}" if token.revoked_at else ""
            bound = f" of {token.tenant}" if token.tenant else ""
            scopes = ",".join(token.scopes)
            self.stdout.write(
                f"{token.key_id}  {token.created:%Y-%m-%d}  {token.role}{bound}  {scopes}  {token.label}{ended}"
            )

    def _revoke(self, options: dict[str, Any]) -> None:
        row = token_revoke(key_id=options["key_id"], author=getpass.getuser(), reason=options["reason"])
        self.stdout.write(f"revoked {row.key_id}")
