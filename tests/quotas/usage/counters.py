"""Writes counters to Redis as the Lua layer does, and adds up what is where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import redis
from django.db.models import Sum

from headroom_edge import keys
from headroom_edge.keys import base36
from quotas.models.usage import ROLLUPS, DrainBatch, Rollup
from quotas.observations.cells import CellSeries
from quotas.usage.batch_format import parse_counters
from quotas.usage.drain_batches import read_counters
from quotas.usage.fold import FOLDS, run_fold

SHARDS = 64
REPLICAS_MS = 60_000  # ample, also for the replicas of a busy machine


@dataclass(frozen=True, slots=True)
class Hit:
    tenant: int
    endpoint: int = 1
    outcome: str = "a"
    limit: int = 0
    cost: int = 1
    second: int | None = None  # None: now, by the server's clock
    shard: int | None = None

    @property
    def usage_key(self) -> str:
        return keys.usage(self.tenant % SHARDS if self.shard is None else self.shard)

    def field(self, now: int) -> str:
        limit = base36(self.limit) if self.limit else ""
        who = keys.tenant_number(self.tenant) + keys.endpoint_number(self.endpoint)
        return f"s{self.second or now:08x}{who}{self.outcome}{limit}"


def count(server: redis.Redis, hits: Iterable[Hit]) -> None:
    now = server.time()[0]
    pipe = server.pipeline(transaction=False)
    for hit in hits:
        pipe.hincrby(hit.usage_key, hit.field(now), (hit.cost << 24) + 1)
    pipe.execute()


Totals = Counter[CellSeries]  # how many requests


def in_redis(server: redis.Redis) -> Totals:
    """What Postgres has not got: a batch whose id it knows only waits to be deleted."""
    known = {str(batch).encode() for batch in DrainBatch.objects.values_list("id", flat=True)}
    totals: Totals = Counter()
    for spell in (keys.usage, keys.usage_batch):
        for counters in read_counters(server, spell, range(SHARDS)).values():
            if counters.get(b"id") not in known:
                for cell in parse_counters([counters])[0].cells.rows():
                    totals[cell.series] += cell.requests
    return totals


def in_postgres(model: type[Rollup] = ROLLUPS[0]) -> Totals:
    """With what waits in the log."""
    for fold in FOLDS.values():
        run_fold(fold)
    names = ("tenant_number", "endpoint_number", "outcome", "limit_number")
    rows = model._default_manager.values_list(*names).annotate(total=Sum("count")).order_by()
    return Counter({CellSeries(*row[:4]): row[4] for row in rows})


def expected(hits: Iterable[Hit]) -> Totals:
    return Counter(CellSeries(hit.tenant, hit.endpoint, hit.outcome, hit.limit) for hit in hits)
