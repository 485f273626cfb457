from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from quotas.demo.seeding import RECORDED, add_older_days, seed
from quotas.demo.story import HOUR
from quotas.demo.tenants import TENANTS
from quotas.demo.trial_key import keep_trial_key
from quotas.management.progress_bar import ProgressBar


class Command(BaseCommand):
    help = "Fill an empty installation with the demo and two weeks of history; otherwise do nothing."
    requires_system_checks = ()  # they would load all routes, which is slow

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--hours", type=float, default=RECORDED / HOUR, help="hours of recorded traffic (default: 360)"
        )
        part = parser.add_mutually_exclusive_group()
        part.add_argument("--recent", action="store_true", help="leave out the days before yesterday for now")
        part.add_argument("--older", action="store_true", help="only add the days that were left out, if there are any")

    def handle(self, *args: Any, **options: Any) -> None:
        bar, now = ProgressBar(self.stdout), timezone.now()
        if not options["older"]:
            is_new = seed(now, bar.show, recorded_for=min(RECORDED, options["hours"] * HOUR))
            bar.end()
            if is_new:
                self.stdout.write(f"seeded {len(TENANTS)} tenants and their recent history")
            else:
                self.stdout.write("there is already a configuration: nothing was seeded")
            keep_trial_key(settings.HEADROOM_TRIAL_KEY)
        if not options["recent"] and (days := add_older_days(now, bar.show)):
            bar.end()
            self.stdout.write(f"added {days} older days of history")
