"""How far a revision has come on its way to the shards."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

from quotas.models import Heartbeat
from quotas.publishing import store
from quotas.publishing.shards import Shards


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` shards; a shard that the revision does not change is done when the publisher is."""

    revision: int
    done: int
    total: int

    @property
    def is_done(self) -> bool:
        return self.done == self.total


def progress_read(revision: int) -> Progress:
    """StoreError where Redis cannot be asked."""
    total: int = settings.HEADROOM_SHARDS
    detail = Heartbeat.objects.filter(name="publisher").values_list("detail", flat=True).first() or ""
    if detail.isdigit() and int(detail) >= revision:
        return Progress(revision, total, total)
    with store.connect(settings.REDIS_URL) as client:
        found = Shards(client, total).look()
    return Progress(revision, sum(shard.revision >= revision for shard in found), total)
