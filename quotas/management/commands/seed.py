from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from quotas.demo.seeding import RECORDED, seed
from quotas.demo.story import HOUR
from quotas.demo.tenants import TENANTS
from quotas.management.progress_bar import ProgressBar


class Command(BaseCommand):
    help = "Fill an empty installation with the demo and two weeks of history; otherwise do nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--hours", type=float, default=RECORDED / HOUR, help="hours of recorded traffic (default: 360)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        bar = ProgressBar(self.stdout)
        if seed(timezone.now(), bar.show, recorded_for=min(RECORDED, options["hours"] * HOUR)):
            bar.end()
            self.stdout.write(f"seeded {len(TENANTS)} tenants and their history")
        else:
            self.stdout.write("there is already a configuration: nothing was seeded")
