from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from quotas.models import Revision

SHOWN_KEYS = 3


class Command(BaseCommand):
    help = "List the newest revisions: who changed what, and why."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--count", type=int, default=20)

    def handle(self, *args: Any, **options: Any) -> None:
        for revision in Revision.objects.defer("before", "after")[: max(0, options["count"])]:
            published = "" if revision.published_us else " (not published yet)"
            self.stdout.write(
                f"{revision.number:>6}  {revision.created:%Y-%m-%d %H:%M:%S}  {revision.author}  {revision.action}  "
                f"{_touched(revision)}  {revision.reason}{published}"
            )


def _touched(revision: Revision) -> str:
    more = len(revision.touched) - SHOWN_KEYS
    return ", ".join(revision.touched[:SHOWN_KEYS]) + (f" and {more} more" if more > 0 else "")
