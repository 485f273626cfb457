from __future__ import annotations

from argparse import ArgumentParser
from difflib import unified_diff
from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandError

from quotas.models import Revision

SHOWN_KEYS = 3


class Command(BaseCommand):
    help = "List the newest revisions with author and reason, or show what one of them changed."
    requires_system_checks = ()  # they would load all routes, which is slow

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("number", nargs="?", type=int, help="show what this revision changed")
        parser.add_argument("--count", type=int, default=20)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["number"] is not None:
            self._show(options["number"])
            return
        for revision in Revision.objects.defer("before", "after")[: max(0, options["count"])]:
            published = "" if revision.published_us else " (not published yet)"
            self.stdout.write(
                f"{revision.number:>6}  {revision.created:%Y-%m-%d %H:%M:%S}  {revision.author}  {revision.action}  "
                f"{_touched(revision)}  {revision.reason}{published}"
            )

    def _show(self, number: int) -> None:
        revision = Revision.objects.filter(number=number).first()
        if revision is None:
            raise CommandError(f"There is no revision {number}; `revisions` lists them.", returncode=2)
        self.stdout.write(f"revision {number}: {revision.action} by {revision.author}: {revision.reason}")
        for key in revision.touched:
            before, after = (_written(states.get(key)) for states in (revision.before, revision.after))
            for line in unified_diff(before, after, f"{key} before", f"{key} after", lineterm="", n=1):
                self.stdout.write(line)


def _written(state: object) -> list[str]:
    return [] if state is None else str(yaml.safe_dump(state, sort_keys=True, allow_unicode=True)).splitlines()


def _touched(revision: Revision) -> str:
    more = len(revision.touched) - SHOWN_KEYS
    return ", ".join(revision.touched[:SHOWN_KEYS]) + (f" and {more} more" if more > 0 else "")
