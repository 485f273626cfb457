"""The Redis side of the drain: sets counters aside as batches, reads them, deletes them.

The counters of a batch never change after it was set aside, so they are read without a lock. A drain that reads a batch
which another drain has just finished finds its id in Postgres and stores nothing. Arrivals and denials are about
subjects, who may be erased (quotas.erasure.subjects), so they are read under the lock under which they are stored.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
import redis

from headroom_edge import keys, lua_library
from quotas.models.usage import Outcome
from quotas.observations.cells import Cells
from quotas.usage.batch_format import (
    ArrivalRecord,
    DenialRecord,
    ParsedCounters,
    UnreadableItems,
    parse_arrivals,
    parse_counters,
    parse_denials,
)
from quotas.usage.store_nodes import NodeFacts, is_copied, is_moving

log = logging.getLogger(__name__)

SCAN_COUNT = 1_000  # fields of a hash; takes Redis about a third of a millisecond
RANGE_COUNT = 5_000  # list items
# Redis keeps the last hundred denials of a tenant. Postgres stores a bounded sample of them.
DENIALS_PER_DRAIN = 200
DENIALS_PER_TENANT = 100
# The list is newest first: denials made after the batch was set aside come before those of the batch.
DENIALS_SINCE = 10
Counters = dict[bytes, bytes]
_WITH_DENIALS = frozenset({Outcome.DENIED, Outcome.TOO_BIG, Outcome.OVERFLOW})


@dataclass(frozen=True, slots=True)
class TakenBatches:
    """The server's clock and identity, and the batches that were set aside on it."""

    node: NodeFacts
    batches: Mapping[int, bytes]  # shard → batch id
    sizes: Mapping[int, int]  # shard → fields
    refused: frozenset[int] = frozenset()  # shards that answered with an error

    @property
    def at(self) -> datetime:
        return self.node.at

    @property
    def run_id(self) -> str:
        return self.node.run_id


@dataclass(frozen=True, slots=True)
class CounterBatch:
    id: bytes
    shard: int
    rows: int  # counters, readable or not
    cells: Cells
    arrivals: Sequence[ArrivalRecord] = ()
    denials: Sequence[DenialRecord] = ()
    unreadable: UnreadableItems = field(default_factory=UnreadableItems)

    @property
    def key(self) -> uuid.UUID:
        """The id as Postgres stores it. An id that is no UUID (set by hand) is hashed into one."""
        try:
            return uuid.UUID(self.id.decode())
        except ValueError:
            return uuid.uuid5(uuid.NAMESPACE_OID, self.id.hex())


def take_batches(server: redis.Redis, shards: int) -> TakenBatches:
    """Of a single server, which has all shards."""
    return take_shards(server, range(shards))


def take_shards(server: redis.Redis, shards: Sequence[int]) -> TakenBatches:
    """Sets the counters of every shard aside. A shard that still has a batch keeps it and returns its id."""
    lua_library.ensure_loaded(server)
    pipe = server.pipeline(transaction=False)
    for shard in shards:
        pipe.fcall("hr_drain", 1, keys.shard_prefix(shard), "TAKE", str(uuid.uuid4()))
    pipe.time()
    pipe.info()
    *ids, time, info = pipe.execute(raise_on_error=False)
    node = NodeFacts.parse(time, info)
    answers = dict(zip(shards, ids, strict=True))
    refused = frozenset(shard for shard, answer in answers.items() if _is_refused(shard, answer))
    batches = {shard: batch for shard, batch in answers.items() if shard not in refused and batch != b""}
    sizes = _sizes(server, batches)
    refused |= batches.keys() - sizes.keys()
    # A shard with a batch always has this key.
    if sizes and not is_copied(server, keys.usage_ends(min(sizes)), node.replicas):
        log.warning("the batches of %d shards wait: the replicas have not confirmed them", len(sizes))
        return TakenBatches(node, {}, {}, refused | sizes.keys())
    return TakenBatches(node, batches, sizes, refused)


def _is_refused(shard: int, reply: object) -> bool:
    """Logs an error reply. That shard is skipped, so that the other shards are drained."""
    if isinstance(reply, redis.RedisError) and is_moving(reply):
        log.info("shard %d is moving and waits for the next drain: %s", shard, reply)
    elif isinstance(reply, Exception):
        log.error("shard %d cannot be drained: %s", shard, reply)
    return isinstance(reply, Exception)


def _sizes(server: redis.Redis, shards: Iterable[int]) -> dict[int, int]:
    """Without shards that have moved meanwhile."""
    pipe = server.pipeline(transaction=False)
    for shard in shards:
        pipe.hlen(keys.usage_batch(shard))
    found = dict(zip(shards, pipe.execute(raise_on_error=False), strict=True))
    return {shard: size for shard, size in found.items() if not _is_refused(shard, size)}


def read_batches(server: redis.Redis, taken: TakenBatches, shards: Sequence[int]) -> list[CounterBatch]:
    """Without their samples, and without batches that cannot be read as a whole just now."""
    counters = read_counters(server, keys.usage_batch, shards)
    whole = [shard for shard in shards if shard in counters and _is_whole(counters[shard], taken, shard)]
    parsed = parse_counters(counters[shard] for shard in whole)
    return [_batch(taken.batches[shard], shard, part) for shard, part in zip(whole, parsed, strict=True)]


def _is_whole(counters: Counters, taken: TakenBatches, shard: int) -> bool:
    """False if another drain has finished the batch, or if another server took over in the middle of the scan.

    A cursor means something else to that server, so that fields may be missing. The next drain reads it again.
    """
    return counters.get(b"id") == taken.batches[shard] and len(counters) == taken.sizes[shard]


def with_samples(server: redis.Redis, batches: Sequence[CounterBatch]) -> list[CounterBatch]:
    """With arrivals and denials, under the drain's lock; without batches whose shards have moved meanwhile."""
    arrivals = _read_arrivals(server, [batch.shard for batch in batches])
    found = [
        replace(batch, arrivals=list(parse_arrivals(arrivals[batch.shard], batch.unreadable)))
        for batch in batches
        if batch.shard in arrivals
    ]
    return _with_denials(server, found)


def read_counters(server: redis.Redis, key: Callable[[int], str], shards: Iterable[int]) -> dict[int, Counters]:
    """Reads by HSCAN, which may return a field twice; the dictionary keeps it once. Leaves out shards that moved."""
    found: dict[int, Counters] = {shard: {} for shard in shards}
    cursors = dict.fromkeys(found, 0)
    while cursors:
        pipe = server.pipeline(transaction=False)
        for shard, cursor in cursors.items():
            pipe.hscan(key(shard), cursor, count=SCAN_COUNT)
        following: dict[int, int] = {}
        for shard, answer in zip(cursors, pipe.execute(raise_on_error=False), strict=True):
            if _is_refused(shard, answer):
                del found[shard]
                continue
            following[shard], part = answer
            found[shard].update(part)
        cursors = {shard: cursor for shard, cursor in following.items() if cursor}
    return found


def _read_arrivals(server: redis.Redis, shards: Iterable[int]) -> dict[int, list[bytes]]:
    """Leaves out shards that moved."""
    found: dict[int, list[bytes]] = {shard: [] for shard in shards}
    waiting = list(found)
    while waiting:
        pipe = server.pipeline(transaction=False)
        for shard in waiting:
            have = len(found[shard])
            pipe.lrange(keys.arrivals_batch(shard), have, have + RANGE_COUNT - 1)
        parts = dict(zip(waiting, pipe.execute(raise_on_error=False), strict=True))
        waiting = []
        for shard, part in parts.items():
            if _is_refused(shard, part):
                del found[shard]
                continue
            found[shard] += part
            if len(part) == RANGE_COUNT:
                waiting.append(shard)
    return found


def _batch(batch_id: bytes, shard: int, parsed: ParsedCounters) -> CounterBatch:
    rows = len(parsed.cells) + parsed.unreadable.count
    return CounterBatch(batch_id, shard, rows, parsed.cells, unreadable=parsed.unreadable)


def _with_denials(server: redis.Redis, batches: Sequence[CounterBatch]) -> list[CounterBatch]:
    refused = [(batch.shard, tenant, count) for batch in batches for tenant, count in _refused(batch.cells).items()]
    share = min(DENIALS_PER_TENANT, max(1, DENIALS_PER_DRAIN // max(1, len(refused))))
    pipe = server.pipeline(transaction=False)
    for shard, tenant, count in refused:
        key = keys.denials(shard, keys.tenant_number(tenant))
        pipe.lrange(key, 0, min(share, count + DENIALS_SINCE) - 1)
    # Denials are a sample: those of a list that has just moved are left out.
    lists = {
        (shard, tenant): items
        for (shard, tenant, _), items in zip(refused, pipe.execute(raise_on_error=False), strict=True)
        if not _is_refused(shard, items)
    }
    return [replace(batch, denials=list(_parse_lists(batch, lists))) for batch in batches]


def _refused(cells: Cells) -> dict[int, int]:
    """Tenant number → requests denied."""
    found = cells.with_outcome(_WITH_DENIALS)
    if not len(found):
        return {}
    tenants, places = np.unique(found.tenant, return_inverse=True)
    counts = np.bincount(places, weights=found.count, minlength=len(tenants)).astype(np.int64)
    return dict(zip(tenants.tolist(), counts.tolist(), strict=True))


def _parse_lists(batch: CounterBatch, lists: Mapping[tuple[int, int], Sequence[bytes]]) -> Iterator[DenialRecord]:
    for (shard, tenant), items in lists.items():
        if shard == batch.shard:
            yield from parse_denials(tenant, items, batch.unreadable)


def delete_batches(server: redis.Redis, batches: Sequence[CounterBatch]) -> frozenset[int]:
    """Call it after the batches are committed to Postgres. Returns the shards that refused, for the next drain.

    A batch that is already gone is ignored.
    """
    pipe = server.pipeline(transaction=False)
    for batch in batches:
        pipe.fcall("hr_drain", 1, keys.shard_prefix(batch.shard), "DONE", batch.id)
    answers = pipe.execute(raise_on_error=False)
    return frozenset(
        batch.shard for batch, answer in zip(batches, answers, strict=True) if _is_refused(batch.shard, answer)
    )
