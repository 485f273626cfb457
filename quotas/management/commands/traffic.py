from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from headroom_edge import AsyncLimiter
from quotas.demo.client_keys import kept_keys
from quotas.demo.live_traffic import LiveTraffic
from quotas.demo.seeding import catch_up, history_begins, is_published
from quotas.demo.traffic_patterns import Flow, flows

WAIT_S: Final = 0.2


class Command(BaseCommand):
    help = "Send checks as the demo tenants would, until stopped."
    requires_system_checks = ()  # they would load all routes, which is slow

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--most", type=int, default=300, help="most new requests per second (default: 300)")
        parser.add_argument("--seed", type=int, default=None, help="seed of the random numbers, to repeat a result")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["most"] < 1:
            raise CommandError("--most must be at least 1 request per second.")
        began = history_begins()
        if began is None:
            raise CommandError("there are no demo tenants: run `manage.py seed` on an empty installation first.")
        draw = np.random.default_rng(options["seed"])
        while not is_published():
            time.sleep(WAIT_S)
        catch_up(began, timezone.now(), draw)
        asyncio.run(self._run(flows(int(began.timestamp())), options["most"], draw))

    async def _run(self, sending: Sequence[Flow], most: int, draw: np.random.Generator) -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with AsyncLimiter.from_url(settings.REDIS_URL, shards=settings.HEADROOM_SHARDS) as limiter:
            keys = kept_keys(settings.HEADROOM_DEMO_KEYS)
            await LiveTraffic(limiter, sending, most, draw, report=self.stdout.write, keys=keys).run(stop)
