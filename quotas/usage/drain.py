"""Moves counters from Redis to Postgres, each count exactly once.

Redis sets the counters of a shard aside as a batch with an id. One Postgres transaction inserts that id, which is
unique, and stores the counts; only then is the batch deleted from Redis. A drain that dies on the way leaves either a
batch that was not stored (the next drain stores it) or a batch whose id is known (the next drain only deletes it).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

import redis
from django.conf import settings
from django.db import DatabaseError, connection, transaction

from headroom_edge import keys
from headroom_edge.algorithms.base import counted
from headroom_edge.lua_library import LibraryError
from quotas.locks import Lock, take_lock
from quotas.models.usage import BEGINNING
from quotas.models.usage_rates import UsageLog
from quotas.observations.cells import Cells
from quotas.publishing import store
from quotas.usage import rollups
from quotas.usage.batch_format import FUTURE
from quotas.usage.calendar_counters import drain_calendar_counters
from quotas.usage.drain_batches import (
    CounterBatch,
    TakenBatches,
    delete_batches,
    read_batches,
    take_shards,
    with_samples,
)
from quotas.usage.drain_state import DROPPED as DROPPED
from quotas.usage.drain_state import WAS_AWAY as WAS_AWAY
from quotas.usage.drain_state import DrainedNode, record_drained, record_dropped
from quotas.usage.key_uses import drain_key_uses
from quotas.usage.latency import drain_latency
from quotas.usage.rollups import add_tally
from quotas.usage.store_nodes import StoreNode, look_again, store_nodes

log = logging.getLogger(__name__)

LOST = "lost"
LATEST = datetime.max.replace(tzinfo=UTC)

# Counters read and stored in one transaction; bounds memory and the transaction after a long outage.
FIELDS_AT_ONCE = 250_000
_REGISTER = """
    INSERT INTO quotas_drainbatch (id, shard, rows, drained_at, run_id)
    SELECT id, shard, rows, %s, %s FROM unnest(%s::uuid[], %s::int[], %s::int[]) AS taken (id, shard, rows)
    ON CONFLICT (id) DO NOTHING RETURNING id
"""


def record_dropped_counts(node: StoreNode) -> None:
    """Records a gap for counts that Redis had to drop. Call it before `record_drained` moves the last drain on."""
    pipe = node.server.pipeline(transaction=False)
    for shard in node.shards:
        pipe.hget(keys.usage_ends(shard), LOST)
    answers = zip(node.shards, pipe.execute(raise_on_error=False), strict=True)
    lost = {shard: int(end_us) for shard, end_us in answers if isinstance(end_us, bytes)}
    if not lost:
        return
    record_dropped(sorted(lost), max(lost.values()), in_cluster=node.in_cluster)
    for shard in lost:
        pipe.hdel(keys.usage_ends(shard), LOST)
    # In a shard that is moving the mark stays, and the next drain finds the same gap again.
    pipe.execute(raise_on_error=False)


Observer = Callable[[str], None]


@dataclass(slots=True)
class DrainSummary:
    at: datetime
    first: datetime  # start of the earliest cell
    batches: int = 0
    rows: int = 0
    cells: int = 0
    arrivals: int = 0
    denials: int = 0
    unreadable: int = 0
    waiting: int = 0  # shards for which the next drain must try again

    def __str__(self) -> str:
        batches, cells = counted(self.batches, "batch", "batches"), counted(self.cells, "cell")
        samples = f"{counted(self.arrivals, 'arrival')}, {counted(self.denials, 'denial')}"
        waiting = f", {counted(self.waiting, 'shard')} to try again" if self.waiting else ""
        counters = f"{counted(self.rows, 'counter')} into {cells}"
        return f"{batches}, {counters}, {samples}, {self.unreadable:,} unreadable{waiting}"


class DrainError(Exception):
    """A drain that could not finish; nothing is lost. The message is one sentence for the operator."""


def drain_once() -> DrainSummary:
    """Drains the Redis server of the settings. Raises DrainError if Redis or Postgres fails."""
    try:
        with connect() as server:
            return drain(server)
    except redis.RedisError as error:
        raise DrainError(f"Redis did not answer; the next drain will try again: {_first_line(error)}") from error
    except DatabaseError as error:
        raise DrainError(f"Postgres did not store the counts, so they stay in Redis: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def connect() -> redis.Redis:
    return store.connect(settings.REDIS_URL, as_text=False)


def drain(client: redis.Redis, *, on_step: Observer = lambda step: None) -> DrainSummary:
    """Any number of drains may run at once.

    Tests use `on_step` to stop a drain after each step: taken, read, registered, added, committed, done.
    Each primary of a cluster is drained by itself; if one fails, its shards wait. Raises only if all fail.
    """
    summary = DrainSummary(BEGINNING, LATEST)
    drained, failures = _drain_nodes(store_nodes(client, range(settings.HEADROOM_SHARDS)), summary, on_step)
    summary.waiting = settings.HEADROOM_SHARDS - sum(len(each.shards) for each in drained)
    if summary.waiting:
        look_again(client)
    if not drained:
        raise failures[0] if failures else redis.ConnectionError("no shard of the cluster has an owner")
    summary.at = min(each.facts.at for each in drained)
    summary.first = min(summary.first, summary.at)
    record_drained(client, drained, summary.first)
    return summary


def _drain_nodes(
    nodes: Sequence[StoreNode], summary: DrainSummary, on_step: Observer
) -> tuple[list[DrainedNode], list[Exception]]:
    drained: list[DrainedNode] = []
    failures: list[Exception] = []
    for node in nodes:
        try:
            drained.append(_drain_node(node, summary, on_step))
        except (redis.RedisError, LibraryError) as error:
            failures.append(error)
            if node.in_cluster:
                words = "%s cannot be drained, %d shards wait: %s"
                log.warning(words, node.name, len(node.shards), _first_line(error))
    return drained, failures


def _drain_node(node: StoreNode, summary: DrainSummary, on_step: Observer) -> DrainedNode:
    server, taken = node.server, take_shards(node.server, node.shards)
    node, waiting = node.named_now(), set(taken.refused)
    on_step("taken")
    for shards in shard_groups(taken.sizes):
        batches = read_batches(server, taken, shards)
        on_step("read")
        stored = _store(server, taken, batches, summary, on_step)
        on_step("committed")
        waiting |= set(shards).difference(batch.shard for batch in stored) | delete_batches(server, stored)
        on_step("done")
    if node.has_all:
        drain_latency(server, taken.node)
        drain_key_uses(server, taken.at, taken.run_id, taken.node.replicas)
    drain_calendar_counters(node)
    record_dropped_counts(node)
    # The shards of a single server have one time in common.
    given = set(node.shards) - waiting if node.in_cluster else node.shards
    return DrainedNode(node, taken.node, frozenset(given))


def shard_groups(sizes: Mapping[int, int]) -> Iterator[list[int]]:
    """Shards whose batches are stored in one transaction: at most FIELDS_AT_ONCE counters, at least one shard."""
    group: list[int] = []
    total = 0
    for shard, size in sizes.items():
        if group and total + size > FIELDS_AT_ONCE:
            yield group
            group, total = [], 0
        group.append(shard)
        total += size
    if group:
        yield group


def _store(
    server: redis.Redis,
    taken: TakenBatches,
    batches: Sequence[CounterBatch],
    summary: DrainSummary,
    on_step: Observer,
) -> list[CounterBatch]:
    """Returns the batches that are stored now, by this drain or an earlier one."""
    with transaction.atomic():
        take_lock(Lock.DRAIN)
        # Before they are registered: a shard that moves in this moment must be stored with its samples later.
        whole = with_samples(server, batches)
        new = _register(taken, whole)
        on_step("registered")
        cells = _plausible(new, taken.at)
        _add(cells, taken.at)
        summary.arrivals += rollups.add_arrivals(chain.from_iterable(batch.arrivals for batch in new), taken.at)
        summary.denials += rollups.add_denials(chain.from_iterable(batch.denials for batch in new), taken.at)
        on_step("added")
    summary.batches += len(new)
    summary.rows += sum(batch.rows for batch in new)
    summary.cells += len(cells)
    if len(cells):
        summary.first = min(summary.first, BEGINNING + int(cells.start.min()) * rollups.SECOND)
    summary.unreadable += sum(_report(batch) for batch in new)
    return whole


def _register(taken: TakenBatches, batches: Sequence[CounterBatch]) -> list[CounterBatch]:
    """Inserts the batch ids and returns the batches that no drain has stored yet."""
    if not batches:
        return []
    keys, shards, rows = zip(*((batch.key, batch.shard, batch.rows) for batch in batches), strict=True)
    with connection.cursor() as cursor:
        cursor.execute(_REGISTER, [taken.at, taken.run_id, list(keys), list(shards), list(rows)])
        new = {key for (key,) in cursor.fetchall()}
    return [batch for batch in batches if batch.key in new]


def _plausible(batches: Sequence[CounterBatch], now: datetime) -> Cells:
    """Drops cells far in the future: each would have a partition created for it."""
    latest = (now + FUTURE - BEGINNING) // rollups.SECOND
    cells = Cells.joined([batch.cells for batch in batches])
    if (cells.start <= latest).all():
        return cells
    for batch in batches:
        for cell in batch.cells.where(batch.cells.start > latest).rows():
            batch.unreadable.add(repr(cell).encode())
    return cells.where(cells.start <= latest)


def _add(cells: Cells, at: datetime) -> None:
    # Only the log and the tally are written here. The folds read the log of many drains at once (quotas.usage.fold).
    if len(cells):
        UsageLog.objects.create(at=at, cells=cells.pack())
        add_tally(cells)


def _report(batch: CounterBatch) -> int:
    if batch.unreadable.count:
        log.warning(
            "batch %s of shard %d: %d unreadable items, for example %s",
            *(batch.key, batch.shard, batch.unreadable.count, batch.unreadable.examples),
        )
    return batch.unreadable.count
