from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from quotas.usage.drain import DrainError, drain_once
from quotas.usage.fold import fold_all


class Command(BaseCommand):
    help = "Move the counters from Redis to Postgres once, and print how many."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            summary = drain_once()
        except DrainError as error:
            raise CommandError(str(error)) from None
        fold_all()
        self.stdout.write(f"drained up to {summary.at:%Y-%m-%d %H:%M:%S} UTC: {summary}")
