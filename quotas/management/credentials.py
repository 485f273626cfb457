"""The base class of the commands `token` and `api_key`: create, list and revoke credentials."""

from __future__ import annotations

import getpass
from abc import ABC, abstractmethod
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from quotas.errors import Refused


class CredentialCommand(BaseCommand, ABC):
    requires_system_checks = ()  # they would load all routes, which is slow

    def add_arguments(self, parser: ArgumentParser) -> None:
        self.add_actions(parser.add_subparsers(dest="action", required=True))

    def add_actions(self, actions: Any) -> None:
        create = actions.add_parser("create", help="create one and show it once")
        self.add_create_arguments(create)
        create.add_argument("--reason", default="created on the command line")
        actions.add_parser("list", help="list all, newest first")
        revoke = actions.add_parser("revoke", help="revoke one permanently")
        revoke.add_argument("key_id", help="the id that list shows")
        revoke.add_argument("--reason", default="revoked on the command line")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            getattr(self, f"_{action}")(options)
        except Refused as refusal:
            raise CommandError(f"{refusal}.") from None

    def _create(self, options: dict[str, Any]) -> None:
        text = self.issue(options, author=getpass.getuser(), reason=options["reason"])
        self.stderr.write("Store it now: it is not shown again.")
        self.stdout.write(text)

    def _list(self, _: dict[str, Any]) -> None:
        for line in self.lines():
            self.stdout.write(line)

    def _revoke(self, options: dict[str, Any]) -> None:
        self.revoke(options["key_id"], author=getpass.getuser(), reason=options["reason"])
        self.stdout.write(f"revoked {options['key_id']}")

    @abstractmethod
    def add_create_arguments(self, parser: ArgumentParser) -> None: ...

    @abstractmethod
    def issue(self, options: dict[str, Any], *, author: str, reason: str) -> str:
        """Returns the whole text, which is not stored anywhere."""

    @abstractmethod
    def lines(self) -> Iterator[str]: ...

    @abstractmethod
    def revoke(self, key_id: str, *, author: str, reason: str) -> None: ...
