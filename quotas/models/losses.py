"""What Redis lost without ending: somebody emptied it, and the server ran on."""

from __future__ import annotations

from datetime import datetime

from quotas.models.revision import Outbox, Revision
from quotas.models.usage import BEGINNING, DrainState, GapRecord

EMPTIED = "Redis was emptied; what it had counted since the last drain is gone."


def note_emptied(at: datetime, run_id: str) -> GapRecord | None:
    """When shards are found without anything. None: that is on record, or there was nothing to lose yet, or the
    server is another one, which the drain notes by itself."""
    state = DrainState.objects.filter(id=1).first()
    if state is None or state.run_id != run_id or state.drained_at >= at or not was_published():
        return None
    drained_us = (state.drained_at - BEGINNING).total_seconds() * 1_000_000
    if not Revision.objects.filter(published_us__lt=drained_us).exists():
        return None
    gap, is_new = GapRecord.objects.update_or_create(start=state.drained_at, reason=EMPTIED, defaults={"end": at})
    return gap if is_new else None


def was_published() -> bool:
    """Whether anything ever reached Redis: until then the first revision waits to be published."""
    return not Outbox.objects.filter(revision=1).exists()
