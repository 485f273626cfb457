from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from headroom_edge.algorithms.base import SECOND_US, parse_duration_us
from quotas.publishing import store
from quotas.publishing.bypass_switches import BypassSwitch, Scope, is_published, switch_off, switch_on, switches_read


class Command(BaseCommand):
    help = "Turns limits to shadow for a while, for emergencies. Speaks to Redis only: works without the database."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        scope = parser.add_mutually_exclusive_group()
        scope.add_argument("--all", action="store_true", help="every limit of every tenant")
        scope.add_argument("--tenant", metavar="NAME")
        scope.add_argument("--endpoint", metavar="NAME")
        scope.add_argument("--limit", metavar="NAME")
        parser.add_argument("--reason")
        parser.add_argument("--for", dest="duration", metavar="DURATION", help="such as 30m")
        action = parser.add_mutually_exclusive_group()
        action.add_argument("--list", action="store_true", help="what is on")
        action.add_argument("--off", action="store_true", help="end it before its time; without a scope, all of it")

    def handle(self, *args: Any, **options: Any) -> None:
        about = _about(options)
        try:
            client = store.connect(settings.REDIS_URL)
            if options["list"]:
                self._list(switches_read(client, settings.HEADROOM_SHARDS), "Nothing is bypassed.")
            elif options["off"]:
                self._list(switch_off(client, settings.HEADROOM_SHARDS, about), "Nothing was bypassed.", "ended: ")
            else:
                self._on(client, about, options)
        except store.StoreError as error:
            raise CommandError(f"Redis did not do it: {error}") from None

    def _on(self, client: store.Client, about: tuple[Scope, str] | None, options: dict[str, Any]) -> None:
        if about is None:
            raise CommandError("Say what to bypass: --all, --tenant NAME, --endpoint NAME or --limit NAME.")
        if not (options["reason"] or "").strip():
            raise CommandError("Say why with --reason.")
        until_us = store.now_us(client) + _duration_us(options["duration"])
        switch = BypassSwitch(*about, until_us, options["reason"].strip())
        store.prepare(client)
        if not is_published(client, settings.HEADROOM_SHARDS, switch):
            # It is switched on all the same: the store may have been flushed, which is when it is needed.
            self.stderr.write(f"Redis knows no {switch}: check the name.")
        switch_on(client, settings.HEADROOM_SHARDS, switch)
        self._list([switch], "")

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
        raise CommandError("Say how long with --for, such as --for 30m.")
    try:
        return parse_duration_us(text)
    except ValueError as error:
        raise CommandError(f"--for: {error}.") from None
