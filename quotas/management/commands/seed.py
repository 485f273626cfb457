from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from quotas.demo.many_tenants import MOST, OWN_EVERY, seed_tenants
from quotas.demo.seeding import RECORDED, add_older_days, seed
from quotas.demo.story import HOUR
from quotas.demo.tenants import TENANTS
from quotas.demo.trial_key import keep_trial_key
from quotas.errors import Refused
from quotas.management.progress_bar import ProgressBar


class Command(BaseCommand):
    help = "Fill an empty installation with the demo and two weeks of history; otherwise do nothing."
    requires_system_checks = ()  # they would load all routes, which is slow

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--hours", type=float, default=None, help=f"hours of recorded traffic (default: {RECORDED / HOUR:g})"
        )
        part = parser.add_mutually_exclusive_group()
        part.add_argument("--recent", action="store_true", help="leave out the days before yesterday for now")
        part.add_argument("--older", action="store_true", help="only add the days that were left out, if there are any")
        many = f"in place of the demo: this many tenants (at most {MOST:,}) on its tiers, without any history"
        part.add_argument("--tenants", type=int, metavar="N", help=many)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["tenants"] is not None:
            self._seed_tenants(options["tenants"], hours=options["hours"])
            return
        bar, now = ProgressBar(self.stdout), timezone.now()
        if not options["older"]:
            hours = RECORDED / HOUR if options["hours"] is None else options["hours"]
            is_new = seed(now, bar.show, recorded_for=min(RECORDED, hours * HOUR))
            bar.end()
            if is_new:
                self.stdout.write(f"seeded {len(TENANTS)} tenants and their recent history")
            else:
                self.stdout.write("there is already a configuration: nothing was seeded")
            keep_trial_key(settings.HEADROOM_TRIAL_KEY)
        if not options["recent"] and (days := add_older_days(now, bar.show)):
            bar.end()
            self.stdout.write(f"added {days} older days of history")

    def _seed_tenants(self, tenants: int, *, hours: float | None) -> None:
        if hours is not None:
            raise CommandError("--tenants has no history, so it does not go with --hours; leave one of them out")
        bar = ProgressBar(self.stdout)
        try:
            seed_tenants(tenants, timezone.now(), bar.show)
        except Refused as refused:
            raise CommandError("; ".join(problem.message for problem in refused.problems)) from None
        finally:
            bar.end()
        self.stdout.write(f"seeded {tenants:,} tenants, {tenants // OWN_EVERY:,} of them with limits of their own")
