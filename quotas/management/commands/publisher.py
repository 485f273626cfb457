from __future__ import annotations

import signal
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from prometheus_client import start_http_server

from headroom_edge.lua_library import LibraryError
from quotas.alerts.guard import WatchGuard
from quotas.metrics import PUBLISHER
from quotas.publishing.publisher_process import PublisherProcess
from quotas.publishing.store import UnfitServerError


class Command(BaseCommand):
    help = "Publish every change of the configuration to Redis, repair differences, and tell if no alert is evaluated."
    requires_system_checks = ()  # they would load all routes, which is slow

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--metrics-port", type=int, help="serve this process's metrics on this port")
        parser.add_argument("--metrics-host", default="127.0.0.1", help="the address to serve on (default: 127.0.0.1)")

    def handle(self, *args: Any, metrics_port: int | None, metrics_host: str, **options: Any) -> None:
        # A pass may stop at any step; the next process completes it.
        signal.signal(signal.SIGTERM, _leave)
        if metrics_port is not None:
            start_http_server(metrics_port, metrics_host, registry=PUBLISHER)
        WatchGuard().start()
        try:
            PublisherProcess(settings.REDIS_URL, settings.HEADROOM_SHARDS).run()
        except (UnfitServerError, LibraryError) as error:
            raise CommandError(str(error)) from None
        except KeyboardInterrupt:
            return


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)
