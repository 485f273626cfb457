from __future__ import annotations

from typing import Any

import redis
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from quotas.usage.drain import connect, drain


class Command(BaseCommand):
    help = "Moves what Redis has counted into Postgres, once, and says how much it was."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with connect() as server:
                summary = drain(server)
        except redis.RedisError as error:
            raise CommandError(
                f"Redis did not answer, so nothing was drained or it goes on next time: {error}"
            ) from None
        except DatabaseError as error:
            reason = str(error).strip().splitlines()[0]
            raise CommandError(f"Postgres did not take the counts, so they stay in Redis: {reason}") from None
        self.stdout.write(f"drained up to {summary.at:%Y-%m-%d %H:%M:%S} UTC: {summary}")
