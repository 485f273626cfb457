"""The state of enforcement as Redis knows it: progress of a revision, enforcing processes, call latency."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, cast

import redis
from django.conf import settings

from headroom_edge import keys
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
class Enforcer:
    id: str
    host: str
    pid: int
    is_degraded: bool  # decides without Redis, or did a moment ago


def enforcers_read(client: redis.Redis) -> list[Enforcer]:
    now_us = store.now_us(client)
    with client.pipeline(transaction=False) as pipe:
        pipe.zrangebyscore(keys.enforcers(), now_us, "+inf")
        pipe.hgetall(keys.enforcer_info())
        alive, about = cast("tuple[list[str], dict[str, str]]", pipe.execute())
    return _processes(_enforcer(name, about.get(name, "{}")) for name in alive)


def _processes(clients: Iterable[Enforcer]) -> list[Enforcer]:
    """One row per process. It is degraded if any of its clients is."""
    found: dict[tuple[str, int] | str, Enforcer] = {}
    for each in sorted(clients, key=lambda each: (not each.is_degraded, each.host, each.pid, each.id)):
        found.setdefault((each.host, each.pid) if each.host else each.id, each)
    return list(found.values())


def _enforcer(name: str, text: str) -> Enforcer:
    try:
        facts = json.loads(text)
        return Enforcer(name, str(facts.get("host", "")), int(facts.get("pid", 0)), bool(facts.get("degraded")))
    except (ValueError, AttributeError, TypeError):
        return Enforcer(name, "", 0, is_degraded=False)


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
