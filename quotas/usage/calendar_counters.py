"""Copies the counters of calendar quotas to Postgres; after a loss of Redis the publisher restores them.

Records touched since the last drain are set aside as a batch. Each row stores the absolute count, so storing a batch
twice is harmless. Counts are read under a lock, so that an older count never overwrites a newer one.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import redis
from django.db import transaction

from headroom_edge import keys
from quotas.locks import Lock, take_lock
from quotas.models.calendar_counter import CalendarCounter, record_emptied_redis
from quotas.usage.store_nodes import NodeFacts, StoreNode, is_moving, shard_words
from tenants.secrets import Sealer, sealer

log = logging.getLogger(__name__)

ROWS_AT_ONCE = 5_000
_KEY = ("shard", "tenant_number", "scope", "subject", "limit_number")
_FACTS = ["generation", "period_start", "used", "expires_at", "drained_at"]


@dataclass(frozen=True, slots=True)
class TakenCalendars:
    at: datetime  # Redis time
    run_id: str
    batches: Mapping[int, bytes]  # shard → batch id
    emptied: Sequence[int]  # shards with neither configuration nor accounting


def drain_calendar_counters(node: StoreNode) -> int:
    """Returns how many counters were stored. Any number of drains may run at once."""
    taken = _take(node)
    shards = taken.emptied if node.in_cluster else None
    if taken.emptied and (gap := record_emptied_redis(taken.at, taken.run_id, shards)):
        log.warning("counts are missing from %s", gap)
    return sum(_drain_shard(node.server, taken, shard) for shard in taken.batches)


def delete_expired_counters(now: datetime) -> int:
    return CalendarCounter.objects.filter(expires_at__lt=now).delete()[0]


def _take(node: StoreNode) -> TakenCalendars:
    places = [*([keys.EVERYONES_SHARD] if node.has_all else []), *node.shards]
    pipe = node.server.pipeline(transaction=False)
    for shard in places:
        pipe.fcall("hr_calendars", 1, keys.shard_prefix(shard), "TAKE", str(uuid.uuid4()))
    for shard in node.shards:
        pipe.exists(keys.shard_prefix(shard), keys.usage(shard))
    pipe.time()
    pipe.info()
    *replies, time, info = pipe.execute(raise_on_error=False)
    facts = NodeFacts.parse(time, info)
    ids = {shard: reply for shard, reply in zip(places, replies, strict=False) if not _is_refused(shard, reply)}
    counts = zip(node.shards, replies[len(places) :], strict=True)
    batches = {shard: batch for shard, batch in ids.items() if batch}
    return TakenCalendars(facts.at, facts.run_id, batches, [shard for shard, count in counts if count == 0])


def _is_refused(shard: int, reply: object) -> bool:
    """Raises any error but that of a slot that is moving; that shard waits for the next drain."""
    if not isinstance(reply, Exception):
        return False
    if not is_moving(reply):
        raise reply
    log.info("the calendar quotas of %s wait for the next drain: %s", shard_words(shard), reply)
    return True


def _drain_shard(server: redis.Redis, taken: TakenCalendars, shard: int) -> int:
    try:
        return _drain(server, taken, shard)
    except redis.ResponseError as error:
        _is_refused(shard, error)
        return 0


def _drain(server: redis.Redis, taken: TakenCalendars, shard: int) -> int:
    batch, stored = taken.batches[shard], 0
    with transaction.atomic():
        take_lock(Lock.CALENDARS)
        sealing = sealer(lock=True)
        for rows in _pages(_read(server, shard, batch)):
            _store([_counter(shard, row, taken.at, sealing) for row in rows])
            stored += len(rows)
    server.fcall("hr_calendars", 1, keys.shard_prefix(shard), "DONE", batch)
    return stored


def _read(server: redis.Redis, shard: int, batch: bytes) -> Iterator[list[Any]]:
    cursor = b"0"
    while True:
        reply = server.fcall("hr_calendars", 1, keys.shard_prefix(shard), "READ", batch, cursor)
        cursor, rows = reply[0], reply[1:]
        yield from rows
        if cursor == b"0":
            return


def _pages(rows: Iterable[list[Any]]) -> Iterator[list[list[Any]]]:
    """Removes duplicates: a scan may return a counter twice, but one INSERT may not upsert a row twice."""
    page: dict[tuple[bytes, int], list[Any]] = {}
    for row in rows:
        page[row[0], row[2]] = row
        if len(page) >= ROWS_AT_ONCE:
            yield list(page.values())
            page = {}
    if page:
        yield list(page.values())


def _counter(shard: int, row: list[Any], at: datetime, sealing: Sealer) -> CalendarCounter:
    record, ttl_ms, limit, generation, start, used = row
    place = keys.RecordPlace.parse(record.decode())
    return CalendarCounter(
        shard=shard,
        tenant_number=place.tenant,
        scope=place.scope,
        subject=sealing.seal(place.subject.encode()),
        limit_number=limit,
        generation=generation,
        period_start=datetime.fromtimestamp(start, UTC),
        used=used,
        expires_at=at + timedelta(milliseconds=ttl_ms),
        drained_at=at,
    )


def _store(counters: list[CalendarCounter]) -> None:
    CalendarCounter.objects.bulk_create(counters, update_conflicts=True, unique_fields=_KEY, update_fields=_FACTS)
