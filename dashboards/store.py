"""The pages' own line to Redis: they ask as an enforcer does, and consume nothing."""

from __future__ import annotations

from functools import cache

from django.conf import settings

from headroom_edge import Limiter


@cache
def limiter() -> Limiter:
    return Limiter.from_url(settings.REDIS_URL, shards=settings.HEADROOM_SHARDS)
