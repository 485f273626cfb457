from __future__ import annotations

import getpass
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from quotas.api_keys import SCOPES, api_key_issue, api_key_revoke, api_key_rotate
from quotas.errors import span_of
from quotas.management.credentials import CredentialCommand
from tenants.models import ApiKey


class Command(CredentialCommand):
    help = "API keys of a tenant's clients: create one (shown once), list them, rotate one, revoke one."

    def add_actions(self, actions: Any) -> None:
        super().add_actions(actions)
        rotate = actions.add_parser("rotate", help="issue a successor and show it once; the key ends after the overlap")
        rotate.add_argument("key_id", help="the id that list shows")
        rotate.add_argument("--overlap", type=_duration, default="24h", help="such as 1h, 24h or 7d (default: 24h)")
        rotate.add_argument("--expires", type=_moment, help="when the new key ends (default: never)")
        rotate.add_argument("--reason", default="rotated on the command line")

    def add_create_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("tenant", help="the tenant that owns the key")
        parser.add_argument("--label", default="", help="what it is for")
        parser.add_argument("--expires", type=_moment, help="when it ends, like 2030-01-31T18:00:00Z (default: never)")
        parser.add_argument("--scope", action="append", choices=SCOPES, help="may be repeated (default: check)")

    def issue(self, options: dict[str, Any], *, author: str, reason: str) -> str:
        issued = api_key_issue(
            tenant=options["tenant"],
            label=options["label"],
            scopes=options["scope"] or ["check"],
            expires_at=options["expires"],
            author=author,
            reason=reason,
        )
        return str(issued.text)

    def lines(self) -> Iterator[str]:
        for key in ApiKey.objects.select_related("tenant"):
            ended = f" revoked {key.revoked_at:%Y-%m-%d %H:%M:%S}" if key.revoked_at else _end(key)
            yield f"{key.key_id}  {key.created:%Y-%m-%d}  {key.tenant}  {','.join(key.scopes)}  {key.label}{ended}"

    def _rotate(self, options: dict[str, Any]) -> None:
        issued = api_key_rotate(
            key_id=options["key_id"],
            until=timezone.now() + options["overlap"],
            expires_at=options["expires"],
            author=getpass.getuser(),
            reason=options["reason"],
        )
        former = ApiKey.objects.get(key_id=options["key_id"])
        self.stderr.write(f"Store it now: it is not shown again. {former.key_id} works until {_shown(former)}.")
        self.stdout.write(str(issued.text))

    def revoke(self, key_id: str, *, author: str, reason: str) -> None:
        api_key_revoke(key_id=key_id, author=author, reason=reason)


def _end(key: ApiKey) -> str:
    return f" until {_shown(key)}" if key.expires_at else ""


def _shown(key: ApiKey) -> str:
    return f"{key.expires_at:%Y-%m-%d %H:%M:%S} UTC"


def _duration(text: str) -> timedelta:
    try:
        return span_of("overlap", text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _moment(text: str) -> datetime:
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None:
        raise ArgumentTypeError(f"{text[:40]!r} is not a time; write it like 2030-01-31T18:00:00Z")
    return found
