from __future__ import annotations

import getpass
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.conf import settings

from quotas.management.credentials import CredentialCommand
from quotas.tokens import token_assign, token_issue, token_permit, token_revoke
from tenants.models import ApiToken, Role
from tenants.scope import READ, SCOPES

ASSIGN = "Say who does: manage.py token assign ID ACCOUNT"


class Command(CredentialCommand):
    help = "API tokens for machines: create one (shown once), list them, revoke one, say who answers for one."

    def add_actions(self, actions: Any) -> None:
        super().add_actions(actions)
        assign = actions.add_parser("assign", help="say who answers for a token of which nobody is known to")
        permit = actions.add_parser("permit", help="let the machine approve changes and recommendations")
        forbid = actions.add_parser("forbid", help="no longer let the machine approve")
        for action in (assign, permit, forbid):
            action.add_argument("key_id", help="the id that list shows")
            action.add_argument("--reason", default="set on the command line")
        assign.add_argument("issuer", metavar="ACCOUNT")

    def add_create_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("label", help="what it is for")
        parser.add_argument("--role", choices=Role.values, default=Role.VIEWER.value)
        parser.add_argument("--scope", action="append", choices=SCOPES, help="may be repeated (default: read)")
        parser.add_argument("--tenant", metavar="NAME", help="the tenant that a token with the role tenant may see")
        parser.add_argument(
            "--issuer",
            metavar="ACCOUNT",
            help="who answers for it (default: the account of your name)",
        )
        parser.add_argument("--may-approve", action="store_true", help="let the machine approve")

    def issue(self, options: dict[str, Any], *, author: str, reason: str) -> str:
        issued = token_issue(
            label=options["label"],
            role=options["role"],
            scopes=options["scope"] or [READ],
            tenant=options["tenant"],
            issuer=options["issuer"],
            may_approve=options["may_approve"],
            author=author,
            reason=reason,
        )
        if issued.row.issuer is None and settings.HEADROOM_FOUR_EYES:
            self.stderr.write(f"Nobody answers for it, so nothing it asks for can be approved. {ASSIGN}")
        return str(issued.text)

    def lines(self) -> Iterator[str]:
        for token in ApiToken.objects.select_related("tenant", "issuer"):
            ended = f" revoked {token.revoked_at:%Y-%m-%d %H:%M:%S}" if token.revoked_at else ""
            bound = f" of {token.tenant}" if token.tenant else ""
            scopes = ",".join(token.scopes)
            issuer = f"for {token.issuer.get_username()}" if token.issuer else "issuer unknown"
            approves = ", may approve" if token.may_approve else ""
            what = f"{token.role}{bound}  {scopes}  {token.label}"
            yield f"{token.key_id}  {token.created:%Y-%m-%d}  {what}  {issuer}{approves}{ended}"

    def _assign(self, options: dict[str, Any]) -> None:
        who = {"author": getpass.getuser(), "reason": options["reason"]}
        token_assign(key_id=options["key_id"], issuer=options["issuer"], **who)
        self.stdout.write(f"{options['issuer']} answers for {options['key_id']}")

    def _permit(self, options: dict[str, Any]) -> None:
        self._let(options, may_approve=True)
        self.stdout.write(f"{options['key_id']} may approve")

    def _forbid(self, options: dict[str, Any]) -> None:
        self._let(options, may_approve=False)
        self.stdout.write(f"{options['key_id']} may not approve")

    def _let(self, options: dict[str, Any], *, may_approve: bool) -> None:
        who = {"author": getpass.getuser(), "reason": options["reason"]}
        token_permit(key_id=options["key_id"], may_approve=may_approve, **who)

    def revoke(self, key_id: str, *, author: str, reason: str) -> None:
        token_revoke(key_id=key_id, author=author, reason=reason)
