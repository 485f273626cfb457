from __future__ import annotations

import getpass
import sys
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from quotas.errors import Refused
from quotas.members import member_remove, member_set
from tenants.models import Membership, Role


class Command(BaseCommand):
    help = "Set, list or remove the roles of accounts. Superusers are owners without a role."
    requires_system_checks = ()  # they would load all routes, which is slow

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        give = actions.add_parser("set", help="set the role of an account")
        give.add_argument("user")
        give.add_argument("role", choices=Role.values)
        give.add_argument("--tenant", metavar="NAME", help="the tenant that a member with the role tenant may see")
        give.add_argument("--create", action="store_true", help="create the account; asks for a password")
        give.add_argument("--reason", default="set on the command line")
        actions.add_parser("list", help="list all roles")
        take = actions.add_parser("remove", help="remove the role of an account")
        take.add_argument("user")
        take.add_argument("--reason", default="removed on the command line")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            {"set": self._set, "list": self._list, "remove": self._remove}[action](options)
        except Refused as refusal:
            raise CommandError(f"{refusal}.") from None

    def _set(self, options: dict[str, Any]) -> None:
        name = options["user"]
        # An account whose role is refused must not stay behind.
        with transaction.atomic():
            if options["create"] and not User.objects.filter(username=name).exists():
                _create(name)
            row = member_set(
                user=name,
                role=options["role"],
                tenant=options["tenant"],
                author=getpass.getuser(),
                reason=options["reason"],
            )
        self.stdout.write(str(row))

    def _list(self, options: dict[str, Any]) -> None:
        for user in User.objects.filter(is_superuser=True, is_active=True).order_by("username"):
            self.stdout.write(f"{user.username}  owner (superuser)")
        for row in Membership.objects.select_related("user", "tenant").order_by("user__username"):
            self.stdout.write(f"{row.user.username}  {row.role}{f' of {row.tenant}' if row.tenant else ''}")

    def _remove(self, options: dict[str, Any]) -> None:
        member_remove(user=options["user"], author=getpass.getuser(), reason=options["reason"])
        self.stdout.write(f"removed the role of {options['user']}")


def _password(name: str) -> str:
    """getpass reads the terminal even when something is piped in, and warns of an echo when there is none."""
    if sys.stdin.isatty():
        return getpass.getpass(f"Password of {name}: ")
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\r\n")


def _create(name: str) -> None:
    user = User(username=name)
    try:
        User.username_validator(name)
        password = _password(name)
        validate_password(password, user)
    except EOFError:
        raise CommandError("there is no password to read; run this in a terminal, or pipe the password in.") from None
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from None
    user.set_password(password)
    user.save()
