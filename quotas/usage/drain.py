"""Moves counters from Redis to Postgres, each count exactly once.

Redis sets the counters of a shard aside as a batch with an id. One Postgres transaction inserts that id, which is
unique, and stores the counts; only then is the batch deleted from Redis. A drain that dies on the way leaves either a
batch that was not stored (the next drain stores it) or a batch whose id is known (the next drain only deletes it).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

import redis
from django.conf import settings
from django.db import DatabaseError, connection, transaction

from headroom_edge import keys
from headroom_edge.algorithms.base import counted
from quotas.locks import Lock, take_lock
from quotas.models.usage import BEGINNING, DrainState, GapRecord
from quotas.models.usage_rates import UsageLog
from quotas.observations.cells import Cells
from quotas.usage import rollups
from quotas.usage.batch_format import FUTURE
from quotas.usage.calendar_counters import drain_calendar_counters
from quotas.usage.drain_batches import (
    CounterBatch,
    TakenBatches,
    delete_batches,
    read_batches,
    take_batches,
    with_samples,
)
from quotas.usage.key_uses import drain_key_uses
from quotas.usage.latency import drain_latency
from quotas.usage.rollups import add_tally

log = logging.getLogger(__name__)

LOST = "lost"
DROPPED = "PostgreSQL was unavailable for so long that Redis ran out of room for counters."
WAS_AWAY = "Redis was down for a while, or another server took over."

# Counters read and stored in one transaction; bounds memory and the transaction after a long outage.
FIELDS_AT_ONCE = 250_000
# A drain that started earlier may commit later, by less than this. A larger difference means Redis' clock went back.
OVERTAKEN = timedelta(minutes=1)
_REGISTER = """
    INSERT INTO quotas_drainbatch (id, shard, rows, drained_at, run_id)
    SELECT id, shard, rows, %s, %s FROM unnest(%s::uuid[], %s::int[], %s::int[]) AS taken (id, shard, rows)
    ON CONFLICT (id) DO NOTHING RETURNING id
"""


def record_dropped_counts(server: redis.Redis) -> None:
    """Records a gap for counts that Redis had to drop. Call it before `_record_drained` moves `drained_at` on."""
    shards = range(settings.HEADROOM_SHARDS)
    pipe = server.pipeline(transaction=False)
    for shard in shards:
        pipe.hget(keys.usage_ends(shard), LOST)
    lost = {shard: int(end_us) for shard, end_us in zip(shards, pipe.execute(), strict=True) if end_us}
    if not lost:
        return
    _record_dropped_until(max(lost.values()))
    for shard in lost:
        pipe.hdel(keys.usage_ends(shard), LOST)
    pipe.execute()


def _record_dropped_until(end_us: int) -> None:
    state = DrainState.objects.filter(id=1).first()
    start, end = state.drained_at if state else BEGINNING, BEGINNING + timedelta(microseconds=end_us)
    if end > start:
        # A drain that died after this point sees the mark again; it must not add a second gap.
        gap, _ = GapRecord.objects.update_or_create(start=start, reason=DROPPED, defaults={"end": end})
        log.warning("counts are missing from %s", gap)


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

    def __str__(self) -> str:
        batches, cells = counted(self.batches, "batch", "batches"), counted(self.cells, "cell")
        samples = f"{counted(self.arrivals, 'arrival')}, {counted(self.denials, 'denial')}"
        return f"{batches}, {counted(self.rows, 'counter')} into {cells}, {samples}, {self.unreadable:,} unreadable"


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
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=10, socket_connect_timeout=2)


def drain(server: redis.Redis, *, on_step: Observer = lambda step: None) -> DrainSummary:
    """Any number of drains may run at once.

    Tests use `on_step` to stop a drain after each step: taken, read, registered, added, committed, done.
    """
    taken = take_batches(server, settings.HEADROOM_SHARDS)
    on_step("taken")
    summary = DrainSummary(taken.at, taken.at)
    for shards in shard_groups(taken.sizes):
        batches = read_batches(server, taken, shards)
        on_step("read")
        _store(server, taken, batches, summary, on_step)
        on_step("committed")
        delete_batches(server, batches)
        on_step("done")
    drain_latency(server, taken.at, taken.run_id)
    drain_key_uses(server, taken.at, taken.run_id)
    drain_calendar_counters(server)
    record_dropped_counts(server)
    _record_drained(taken, summary.first)
    return summary


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
) -> None:
    with transaction.atomic():
        take_lock(Lock.DRAIN)
        new = with_samples(server, _register(taken, batches))
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


def _register(taken: TakenBatches, batches: Sequence[CounterBatch]) -> list[CounterBatch]:
    """Inserts the batch ids and returns the batches that no drain has stored yet."""
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


def _record_drained(taken: TakenBatches, first: datetime) -> None:
    with transaction.atomic():
        take_lock(Lock.DRAIN)
        state = DrainState.objects.filter(id=1).first()
        if state and timedelta(0) < state.drained_at - taken.at < OVERTAKEN:
            return
        if state is None:
            GapRecord.objects.create(start=BEGINNING, end=first, reason="Nothing was measured before.")
        elif state.run_id != taken.run_id:
            _record_loss(state.drained_at, taken)
        DrainState.objects.update_or_create(id=1, defaults={"drained_at": taken.at, "run_id": taken.run_id})


def _record_loss(drained_at: datetime, taken: TakenBatches) -> None:
    """Records what a new Redis process may have lost.

    A restarted server lost at most what was counted before it started; a replica that took over, up to now. After a
    clean stop it is a gap too: while Redis is down, nothing is counted.
    """
    end = taken.started_at if taken.started_at > drained_at else taken.at
    gap = GapRecord(start=min(drained_at, end), end=end, reason=WAS_AWAY)
    gap.save()
    log.warning("counts may be missing from %s", gap)
