from __future__ import annotations

import getpass
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from quotas.changes.freeze import PASSING_ROLES, freeze_lift, freeze_set, freeze_state, passers
from quotas.errors import Refused
from quotas.models import Freeze
from quotas.policies.problems import Problem

MOST_LISTED = 50
OPTIONS = {"start": "--from", "end": "--until", "roles": "--role", "members": "--member"}  # by field


class Command(BaseCommand):
    help = "Freeze the configuration for a while, list the freezes, or lift one early."
    requires_system_checks = ()  # they would load all routes, which is slow

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        give = actions.add_parser("set", help="freeze the configuration")
        give.add_argument("--until", dest="end", type=_moment, required=True, metavar="TIME", help="2030-01-31T18:00Z")
        give.add_argument("--from", dest="start", type=_moment, metavar="TIME", help="default: now")
        give.add_argument("--role", action="append", default=[], choices=PASSING_ROLES, help="may pass; repeatable")
        give.add_argument("--member", action="append", default=[], metavar="ACCOUNT", help="may pass; repeatable")
        actions.add_parser("list", help="list the freezes, newest first")
        lift = actions.add_parser("lift", help="end a freeze early")
        lift.add_argument("number", type=int)
        for action in (give, lift):
            action.add_argument("--reason", required=True)
            action.add_argument("--author", default=getpass.getuser())

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            getattr(self, f"_{action}")(options)
        except Refused as refusal:
            told = "\n".join(f"{_with_option(problem)}." for problem in refusal.problems)
            raise CommandError(told, returncode=2) from None

    def _set(self, options: dict[str, Any]) -> None:
        said = {name: options[name] for name in ("start", "end", "author", "reason")}
        self._say(freeze_set(**said, roles=options["role"], members=options["member"]))

    def _list(self, options: dict[str, Any]) -> None:
        rows = Freeze.objects.all()[:MOST_LISTED]
        if not rows:
            self.stdout.write("no freeze has been set")
        for row in rows:
            self._say(row)

    def _lift(self, options: dict[str, Any]) -> None:
        self._say(freeze_lift(freeze=options["number"], author=options["author"], reason=options["reason"]))

    def _say(self, row: Freeze) -> None:
        end = max(row.start, row.lifted_at) if row.lifted_at else row.end
        window = f"{row.start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"
        state = freeze_state(row, timezone.now())
        self.stdout.write(f"{row}  {state}  {window}  by {row.author}: {row.reason}  (may pass: {passers(row)})")


def _with_option(problem: Problem) -> Problem:
    # Of what `lift` refuses, the sentence says all.
    return replace(problem, path=OPTIONS.get(problem.path, ""))


def _moment(text: str) -> datetime:
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None:
        raise ArgumentTypeError(f"{text} is not a time; write it like 2030-01-31T18:00Z")
    return moment
