"""Restores the counters of calendar quotas before a shard that lost its data becomes ready again.

The order matters: first a mark in the shard, then the counters, then the flip. The flip refuses a shard that has
neither token nor mark. A flush in between also removes the mark, so the flip fails and everything is restored again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, groupby, islice
from typing import Any

import redis

from headroom_edge import keys
from quotas.models.calendar_counter import CalendarCounter, record_emptied_redis, was_ever_published
from quotas.models.revision import AuditEvent
from quotas.publishing import store
from tenants.secrets import sealer

logger = logging.getLogger(__name__)

# Records per call; takes Redis about a millisecond.
PUT_AT_ONCE = 200
MILLISECOND = timedelta(milliseconds=1)

Words = list[Any]


@dataclass(frozen=True, slots=True)
class RedisClock:
    at: datetime
    run_id: str

    @classmethod
    def of(cls, server: redis.Redis) -> RedisClock:
        """`server`: one server, never a cluster."""
        seconds, micros = server.time()
        run_id = str(store.info(server, "server")["run_id"])
        return cls(datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=micros), run_id)


def restore_counters(client: redis.Redis, lost: list[int], version: str) -> dict[int, Exception]:
    """Restores shards without token; `version` is the one they are about to be flipped to.

    Returns the shards that could not be restored. Each server has its own clock and its own loss.
    """
    failed: dict[int, Exception] = {}
    records = _restore_shared(client, version)
    for server, shards in store.by_node(client, lost):
        try:
            records += _restore(client, RedisClock.of(server), shards, version)
        except redis.RedisError as error:
            failed |= dict.fromkeys(shards, error)
    restored = [shard for shard in lost if shard not in failed]
    if records and was_ever_published():
        logger.warning("restored %d records of calendar quotas to shards %s", records, restored)
        AuditEvent.objects.create(kind="counters_restored", detail={"shards": restored, "records": records})
    return failed


def _restore_shared(client: redis.Redis, version: str) -> int:
    """The records of global limits. PUT leaves alone those that are still there."""
    try:
        ((server, _),) = store.by_node(client, [keys.EVERYONES_SHARD])
        clock = RedisClock.of(server)
        client.fcall("hr_calendars", 1, keys.ALL, "BEGIN", version)
        return _restore_places(client, [keys.EVERYONES_SHARD], version, clock.at)
    except redis.RedisError as error:
        if store.as_cluster(client) is None:
            raise
        # Its server has shards too: if it lost its data, their loss brings this back.
        logger.warning("the counters of global limits were not restored: %s", error)
        return 0


def _restore(client: redis.Redis, clock: RedisClock, shards: list[int], version: str) -> int:
    """Shards of one server, with its clock."""
    emptied = _emptied(client, shards)
    records = _restore_places(client, shards, version, clock.at)
    part = None if store.as_cluster(client) is None else [shard for shard in shards if shard != keys.EVERYONES_SHARD]
    if emptied and (gap := record_emptied_redis(clock.at, clock.run_id, part)):
        logger.warning("counts are missing from %s", gap)
    return records


def _restore_places(client: redis.Redis, places: Iterable[int], version: str, at: datetime) -> int:
    return sum(_put(client, place, version, _records(place, at)) for place in _with_records(places, at))


def _emptied(client: redis.Redis, shards: list[int]) -> bool:
    """Whether more than the token is gone: every published shard has an accounting hash."""
    return store.exist_many(client, [keys.usage(shard) for shard in shards]) < len(shards)


def _put(client: redis.Redis, place: int, version: str, records: Iterator[Words]) -> int:
    made = 0
    while page := list(islice(records, PUT_AT_ONCE)):
        words = chain.from_iterable(page)
        made += int(client.fcall("hr_calendars", 1, keys.shard_prefix(place), "PUT", version, *words))
    return made


def _with_records(places: Iterable[int], now: datetime) -> list[int]:
    """One query, because few shards have calendar quotas, and a query for each would mostly find nothing."""
    rows = CalendarCounter.objects.filter(shard__in=places, expires_at__gt=now + MILLISECOND)
    return list(rows.order_by("shard").values_list("shard", flat=True).distinct())


def _records(place: int, now: datetime) -> Iterator[Words]:
    """The arguments of PUT for each record: its key, its time to live, its counters."""
    rows = CalendarCounter.objects.filter(shard=place, expires_at__gt=now + MILLISECOND)
    in_order = rows.order_by("tenant_number", "scope", "subject", "limit_number").iterator()
    opened, unreadable = sealer(), 0
    for (tenant, scope, sealed), group in groupby(in_order, lambda r: (r.tenant_number, r.scope, bytes(r.subject))):
        counters = list(group)
        subject = opened.unseal(sealed)
        if subject is None:
            unreadable += 1
            continue
        record = keys.RecordPlace(tenant, scope, subject.decode())
        ttl_ms = max(counter.expires_at - now for counter in counters) // MILLISECOND
        yield [str(record), ttl_ms, len(counters), *_numbers(counters)]
    if unreadable:
        logger.error("%d records could not be restored: they were sealed with a key that is gone", unreadable)


def _numbers(counters: Iterable[CalendarCounter]) -> Iterator[int]:
    for counter in counters:
        start = int(counter.period_start.timestamp())
        yield from (counter.limit_number, counter.generation, start, counter.used)
