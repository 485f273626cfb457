"""The state of enforcement as Redis knows it: progress of a revision, call latency."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import redis
from django.conf import settings

from quotas.models import Heartbeat
from quotas.publishing import store
from quotas.publishing.shards import Shards

MICROSECONDS: Final = 1_000_000
_SECTION: Final = "latencystats"
_FUNCTION_CALLS: Final = "latency_percentiles_usec_fcall"


def call_quantiles(client: redis.Redis) -> Mapping[str, float]:
    """Quantile → seconds per function call; empty if there were no calls or the server keeps no statistics."""
    found = client.info(_SECTION).get(_FUNCTION_CALLS, {})
    return {_quantile(name): float(value) / MICROSECONDS for name, value in dict(found).items()}


def _quantile(name: str) -> str:
    """`p99.9` is 0.999."""
    return f"{float(name.removeprefix('p')) / 100:.6f}".rstrip("0")


@dataclass(frozen=True, slots=True)
class PublishProgress:
    """`done` of `total` shards. A shard that the revision does not change counts once the publisher has finished."""

    revision: int
    done: int
    total: int

    @property
    def is_done(self) -> bool:
        return self.done == self.total


def publish_progress_read(revision: int) -> PublishProgress:
    """Raises StoreError if Redis does not answer."""
    total: int = settings.HEADROOM_SHARDS
    detail = Heartbeat.objects.filter(name="publisher").values_list("detail", flat=True).first() or ""
    if detail.isdigit() and int(detail) >= revision:
        return PublishProgress(revision, total, total)
    with store.connect(settings.REDIS_URL) as client:
        found = Shards(client, total).read_contents()
    return PublishProgress(revision, sum(shard.revision >= revision for shard in found), total)
