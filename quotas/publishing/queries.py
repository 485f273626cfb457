"""The state of enforcement as Redis knows it: progress of a revision, call latency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import redis
from django.conf import settings

from quotas.models import Heartbeat
from quotas.publishing import store
from quotas.publishing.shards import Shards

MICROSECONDS: Final = 1_000_000
_SECTION: Final = "latencystats"
_FUNCTION_CALLS: Final = "latency_percentiles_usec_fcall"


def call_quantiles(client: redis.Redis) -> Mapping[str, float]:
    """Quantile → seconds per function call, of the slowest server that answers.

    Empty if there were no calls or the servers keep no statistics.
    """
    slowest: dict[str, float] = {}
    for server in _answering(client):
        for name, value in dict(server.get(_FUNCTION_CALLS, {})).items():
            seconds = float(value) / MICROSECONDS
            slowest[_quantile(name)] = max(seconds, slowest.get(_quantile(name), 0.0))
    return slowest


def _answering(client: redis.Redis) -> Iterator[Mapping[str, Any]]:
    for _, server in store.primaries(client):
        try:
            yield store.info(server, _SECTION)
        except redis.RedisError:
            if store.as_cluster(client) is None:
                raise


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
        shards = Shards(client, total)
        found = shards.read_reachable()
    return PublishProgress(revision, sum(each.revision >= revision for each in found.values()), len(shards.numbers))
