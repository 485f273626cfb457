from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from quotas.api_keys import SCOPES, api_key_issue, api_key_revoke
from quotas.management.credentials import CredentialCommand
from tenants.models import ApiKey


class Command(CredentialCommand):
    help = "API keys of a tenant's clients: create one (shown once), list them, revoke one."

    def add_create_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("tenant", help="the tenant that owns the key")
        parser.add_argument("--label", default="", help="what it is for")
        parser.add_argument("--scope", action="append", choices=SCOPES, help="may be repeated (default: check)")

    def issue(self, options: dict[str, Any], *, author: str, reason: str) -> str:
        issued = api_key_issue(
            tenant=options["tenant"],
            label=options["label"],
            scopes=options["scope"] or ["check"],
            author=author,
            reason=reason,
        )
        return str(issued.text)

    def lines(self) -> Iterator[str]:
        for key in ApiKey.objects.select_related("tenant"):
            ended = f" revoked {key.revoked_at:%Y-%m-%d %H:%M:%S}" if key.revoked_at else ""
            yield f"{key.key_id}  {key.created:%Y-%m-%d}  {key.tenant}  {','.join(key.scopes)}  {key.label}{ended}"

    def revoke(self, key_id: str, *, author: str, reason: str) -> None:
        api_key_revoke(key_id=key_id, author=author, reason=reason)
