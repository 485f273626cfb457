from __future__ import annotations

import asyncio
import signal
from random import Random
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from quotas.demo.traffic import Traffic
from quotas.limiter import AsyncLimiter


class Command(BaseCommand):
    help = "Sends checks as the seeded tenants would, until it is stopped."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--most", type=float, default=300, help="checks a second at most (default: 300)")
        parser.add_argument("--seed", type=int, default=None, help="the same number, the same arrivals")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["most"] >= 10:
            raise CommandError("--most must be at least 10 checks a second.")
        chance = Random(options["seed"])  # noqa: S311 - arrivals of a demo, no secret
        asyncio.run(self._run(options["most"], chance))

    async def _run(self, most: float, chance: Random) -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with AsyncLimiter.from_url(settings.REDIS_URL, shards=settings.HEADROOM_SHARDS) as limiter:
            await Traffic(limiter, most, chance, report=self.stdout.write).run(stop)
