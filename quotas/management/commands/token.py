from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from quotas.management.credentials import CredentialCommand
from quotas.tokens import token_issue, token_revoke
from tenants.models import ApiToken, Role
from tenants.scope import READ, SCOPES


class Command(CredentialCommand):
    help = "API tokens for machines: create one (shown once), list them, revoke one."

    def add_create_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("label", help="what it is for")
        parser.add_argument("--role", choices=Role.values, default=Role.VIEWER.value)
        parser.add_argument("--scope", action="append", choices=SCOPES, help="may be repeated (default: read)")
        parser.add_argument("--tenant", metavar="NAME", help="the tenant that a token with the role tenant may see")

    def issue(self, options: dict[str, Any], *, author: str, reason: str) -> str:
        issued = token_issue(
            label=options["label"],
            role=options["role"],
            scopes=options["scope"] or [READ],
            tenant=options["tenant"],
            author=author,
            reason=reason,
        )
        return str(issued.text)

    def lines(self) -> Iterator[str]:
        for token in ApiToken.objects.select_related("tenant"):
            ended = f" revoked {token.revoked_at:%Y-%m-%d %H:%M:%S}" if token.revoked_at else ""
            bound = f" of {token.tenant}" if token.tenant else ""
            scopes = ",".join(token.scopes)
            yield f"{token.key_id}  {token.created:%Y-%m-%d}  {token.role}{bound}  {scopes}  {token.label}{ended}"

    def revoke(self, key_id: str, *, author: str, reason: str) -> None:
        token_revoke(key_id=key_id, author=author, reason=reason)
