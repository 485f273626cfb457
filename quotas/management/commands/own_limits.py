from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from headroom_edge.keys import OWN_TENANT
from quotas.changes.freeze import Frozen
from quotas.own_limits import own_limits_install

AUTHOR = "headroom"


class Command(BaseCommand):
    help = "Install limits on Headroom's own API, pages and login, unless there are any."
    requires_system_checks = ()  # they would load all routes, which is slow

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if own_limits_install(AUTHOR):
                self.stdout.write(f"the API, the pages and the login are limited as the tenant {OWN_TENANT}")
        except Frozen as frozen:
            # A release may bring new ones during a freeze; that must not keep the platform from starting.
            self.stderr.write(f"Not now: {frozen}. The next start tries again.")
