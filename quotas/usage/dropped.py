"""Counters that Redis dropped, because nobody drained and there was no room for more: the time they stood for is a gap.

The oldest are dropped first, so whatever is missing was counted between the last drain and the end of the newest that
was dropped, which Redis keeps.
"""

from __future__ import annotations

import logging
from datetime import timedelta

import redis
from django.conf import settings

from headroom_edge import keys
from quotas.models.usage import BEGINNING, DrainState, GapRecord

log = logging.getLogger(__name__)

LOST = "lost"
DROPPED = "PostgreSQL was away for so long that Redis had no room left for its counters."


def note_dropped(server: redis.Redis) -> None:
    """Before the drain notes that it has drained: until then the gap begins where the last one ended."""
    shards = range(settings.HEADROOM_SHARDS)
    pipe = server.pipeline(transaction=False)
    for shard in shards:
        pipe.hget(keys.usage_ends(shard), LOST)
    lost = {shard: int(end_us) for shard, end_us in zip(shards, pipe.execute(), strict=True) if end_us}
    if not lost:
        return
    _note(max(lost.values()))
    for shard in lost:
        pipe.hdel(keys.usage_ends(shard), LOST)
    pipe.execute()


def _note(end_us: int) -> None:
    state = DrainState.objects.filter(id=1).first()
    start, end = state.drained_at if state else BEGINNING, BEGINNING + timedelta(microseconds=end_us)
    if end > start:
        # Told again after a drain that died here, it is the same gap.
        gap, _ = GapRecord.objects.update_or_create(start=start, reason=DROPPED, defaults={"end": end})
        log.warning("counts are missing from %s", gap)
