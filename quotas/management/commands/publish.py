from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from headroom_edge.lua_library import LibraryError
from quotas.publishing import store
from quotas.publishing.publisher_process import PublisherProcess
from quotas.publishing.shards import SupersededError


class Command(BaseCommand):
    help = "Publish the configuration to Redis once."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            revision = PublisherProcess(settings.REDIS_URL, settings.HEADROOM_SHARDS).once()
        except (store.UnfitServerError, LibraryError, SupersededError, store.StoreError) as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"Redis holds revision {revision}.")
