from __future__ import annotations

import getpass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from headroom_edge.algorithms.base import SECOND_US, parse_duration_us
from headroom_edge.lua_library import LibraryError
from quotas.bypass import bypass_record, check_there
from quotas.errors import Refused
from quotas.publishing import store
from quotas.publishing.bypass_switches import BypassSwitch, Scope, is_published, switch_off, switch_on, switches_read


class Command(BaseCommand):
    help = "Stop enforcing limits for a while in an emergency; they keep counting. Works without the database."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        scope = parser.add_mutually_exclusive_group()
        scope.add_argument("--all", action="store_true", help="every limit of every tenant")
        scope.add_argument("--tenant", metavar="NAME")
        scope.add_argument("--endpoint", metavar="NAME")
        scope.add_argument("--limit", metavar="NAME")
        parser.add_argument("--reason")
        parser.add_argument("--for", dest="duration", metavar="DURATION", help="for example 30m")
        action = parser.add_mutually_exclusive_group()
        action.add_argument("--list", action="store_true", help="list the switches that are on")
        action.add_argument("--off", action="store_true", help="turn a switch off early; without a scope, all of them")

    def handle(self, *args: Any, **options: Any) -> None:
        about = _about(options)
        try:
            client = store.patiently(lambda: store.connect(settings.REDIS_URL))
            store.refuse_wrong_address(client)
            if options["list"]:
                self._list(switches_read(client, settings.HEADROOM_SHARDS), "Nothing is bypassed.")
            elif options["off"]:
                self._list(switch_off(client, settings.HEADROOM_SHARDS, about), "Nothing was bypassed.", "ended: ")
            else:
                self._on(client, about, options)
        except store.PartialError as error:
            raise CommandError(f"{error}. The other shards are done; run the command again for the rest.") from None
        except (store.StoreError, store.UnfitServerError, LibraryError) as error:
            raise CommandError(f"Redis reported an error: {error}") from None

    def _on(self, client: store.Client, about: tuple[Scope, str] | None, options: dict[str, Any]) -> None:
        if about is None:
            raise CommandError("Choose what to bypass: --all, --tenant NAME, --endpoint NAME or --limit NAME.")
        if not (options["reason"] or "").strip():
            raise CommandError("Give a reason with --reason.")
        until_us = store.now_us(client) + _duration_us(options["duration"])
        switch = BypassSwitch(*about, until_us, options["reason"].strip())
        store.prepare(client)
        if switch.scope != "limit" and not is_published(client, settings.HEADROOM_SHARDS, switch):
            self._check_name(switch)
        switch_on(client, settings.HEADROOM_SHARDS, switch)
        if switch.scope == "limit":
            self._check_limit(client, switch)
        self._list([switch], "")
        try:
            bypass_record(switch, getpass.getuser())
        except DatabaseError as error:
            self.stderr.write(
                f"It is not in the audit, and nobody is told, because PostgreSQL did not take it: {error}"
            )

    def _check_limit(self, client: store.Client, switch: BypassSwitch) -> None:
        """Only PostgreSQL has the names of limits, and a bypass must not wait for it: so it is asked afterwards."""
        try:
            self._check_name(switch)
        except CommandError:
            switch_off(client, settings.HEADROOM_SHARDS, switch.about)
            raise

    def _check_name(self, switch: BypassSwitch) -> None:
        """PostgreSQL is asked only about what Redis does not know: a bypass must not wait for it otherwise."""
        try:
            check_there(switch.scope, switch.name)
        except Refused as refused:
            raise CommandError(f"{refused}.") from None
        except DatabaseError:
            # Turned on anyway: Redis may have been flushed, and that is when a bypass is needed.
            self.stderr.write(f"Redis does not know {switch}, and PostgreSQL cannot be asked: check the name.")

    def _list(self, switches: list[BypassSwitch], nothing: str, prefix: str = "") -> None:
        for switch in switches:
            until = datetime.fromtimestamp(switch.until_us / SECOND_US, UTC)
            self.stdout.write(f"{prefix}{switch}, until {until:%Y-%m-%d %H:%M:%S} UTC: {switch.reason}")
        if not switches:
            self.stdout.write(nothing)


def _about(options: dict[str, Any]) -> tuple[Scope, str] | None:
    if options["all"]:
        return ("all", "")
    scopes: tuple[Scope, ...] = ("tenant", "endpoint", "limit")
    return next(((scope, options[scope]) for scope in scopes if options[scope]), None)


def _duration_us(text: str | None) -> int:
    if not text:
        raise CommandError("Give a duration with --for, for example --for 30m.")
    try:
        return parse_duration_us(text)
    except ValueError as error:
        raise CommandError(f"--for: {error}.") from None
