from __future__ import annotations

import getpass
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from quotas.errors import Refused
from quotas.members import member_remove, member_set
from tenants.models import Membership, Role


class Command(BaseCommand):
    help = "Who may do what: give an account a role, list the roles, take one away. Superusers are owners without one."
    requires_system_checks = ()  # they would load every route of the API first

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        give = actions.add_parser("set", help="give an account its role")
        give.add_argument("user")
        give.add_argument("role", choices=Role.values)
        give.add_argument("--tenant", metavar="NAME", help="the one that a member of the role tenant sees")
        give.add_argument("--create", action="store_true", help="make the account, with a password that is asked for")
        give.add_argument("--reason", default="given on the command line")
        actions.add_parser("list", help="all of them")
        take = actions.add_parser("remove", help="take an account's role away")
        take.add_argument("user")
        take.add_argument("--reason", default="taken away on the command line")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            {"set": self._set, "list": self._list, "remove": self._remove}[action](options)
        except Refused as refusal:
            raise CommandError(f"{refusal}.") from None

    def _set(self, options: dict[str, Any]) -> None:
        name = options["user"]
        if options["create"] and not User.objects.filter(username=name).exists():
            User.objects.create_user(name, password=getpass.getpass(f"Password of {name}: "))
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
        self.stdout.write(f"{options['user']} has no role any more")
