"""Moves the uses of API keys from Redis to Postgres, each exactly once (see quotas.usage.drain), and reads them.

Enforcers report every 10 s and the drain follows within seconds, so a last use is known to about 15 s.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, cast

import redis
from django.db import connection, transaction
from django.db.models import OuterRef, QuerySet, Subquery, Sum

from headroom_edge import keys
from quotas.locks import Lock, take_lock
from quotas.models.key_use import KeyUse
from quotas.models.usage import BEGINNING, DrainBatch
from quotas.usage.batch_format import FUTURE, UnreadableItems
from quotas.usage.store_nodes import is_copied, is_moving
from tenants.models import ApiKey, ApiToken

log = logging.getLogger(__name__)

KEY_USES: Final = -2  # instead of a shard number
KEPT: Final = timedelta(days=400)
HOUR: Final = timedelta(hours=1)
_ID: Final = b"*"  # the field of a batch that has its id
_FIELD: Final = re.compile(rb"([a-z0-9]{8,32}) ([0-9]{1,9})")
_ADD: Final = """
    INSERT INTO quotas_keyuse AS known (key_id, day, tenant_number, requests, last_used)
    SELECT * FROM unnest(%s::text[], %s::date[], %s::int[], %s::bigint[], %s::timestamptz[])
    ON CONFLICT (key_id, day) DO UPDATE SET
        requests = known.requests + excluded.requests, last_used = greatest(known.last_used, excluded.last_used)
"""


@dataclass(slots=True)
class _Day:
    requests: int
    last_used: datetime


def drain_key_uses(server: redis.Redis, at: datetime, run_id: str, replicas: int = 0) -> int:
    """Returns how many requests were new.

    `server` holds `hr:{all}` and has so many replicas. While that moves to another one, uses wait for the next drain.
    """
    try:
        return _drain(server, at, run_id, replicas)
    except redis.ResponseError as error:
        if not is_moving(error):
            raise
        log.info("the uses of keys wait for the next drain: %s", error)
        return 0


def _drain(server: redis.Redis, at: datetime, run_id: str, replicas: int) -> int:
    batch = _take(server)
    if batch is None or not is_copied(server, keys.key_uses_batch(), replicas):
        return 0
    fields = _fields(server)
    if fields.get(_ID) != str(batch).encode() or len(fields) != server.hlen(keys.key_uses_batch()):
        # Another drain has finished it, or another server took over in the middle of the scan.
        return 0
    unreadable = UnreadableItems()
    days = _days(fields, at, unreadable)
    with transaction.atomic():
        take_lock(Lock.DRAIN)
        known = {"shard": KEY_USES, "drained_at": at, "run_id": run_id, "rows": len(days)}
        _, is_new = DrainBatch.objects.get_or_create(id=batch, defaults=known)
        if is_new and days:
            _add(days)
    server.delete(keys.key_uses_batch())
    if unreadable.count:
        log.warning("%d unreadable uses of keys, for example %s", unreadable.count, unreadable.examples)
    return sum(day.requests for day in days.values()) if is_new else 0


def delete_old_uses(now: datetime) -> None:
    KeyUse.objects.filter(day__lt=(now - KEPT).date()).delete()


def with_last_use(rows: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
    """Adds `last_used` to each; None: no use was reported."""
    newest = KeyUse.objects.filter(key_id=OuterRef("key_id")).order_by("-day").values("last_used")[:1]
    return rows.annotate(last_used=Subquery(newest))


def requests_by_key(names: Collection[str], now: datetime, days: int) -> dict[str, int]:
    """Of the last so many days, today included."""
    rows = KeyUse.objects.filter(key_id__in=names, day__gt=now.date() - timedelta(days=days))
    return dict(rows.order_by().values_list("key_id").annotate(total=Sum("requests")))


def _take(server: redis.Redis) -> uuid.UUID | None:
    """The id of the batch to store: one that an earlier drain left, or all uses since the last one."""
    if not server.exists(keys.key_uses_batch()):
        try:
            server.renamenx(keys.key_uses(), keys.key_uses_batch())
        except redis.ResponseError:  # there are none
            return None
    # Two drains at once agree on the id, and the second finds the batch stored.
    server.hsetnx(keys.key_uses_batch(), _ID.decode(), str(uuid.uuid4()))
    found = cast("bytes | None", server.hget(keys.key_uses_batch(), _ID.decode()))
    return uuid.UUID(found.decode()) if found else None


def _fields(server: redis.Redis) -> Mapping[bytes, bytes]:
    """A scan may return a field twice."""
    return dict(server.hscan_iter(keys.key_uses_batch(), count=1_000))


def _days(
    fields: Mapping[bytes, bytes], at: datetime, unreadable: UnreadableItems
) -> Mapping[tuple[str, datetime], _Day]:
    """By key and start of the day."""
    found: dict[tuple[str, datetime], _Day] = {}
    for name, value in fields.items():
        if name == _ID:
            continue
        match = _FIELD.fullmatch(name)
        hour = BEGINNING + int(match[2]) * HOUR if match else None
        if match is None or hour is None or hour > at + FUTURE or not value.isdigit():
            unreadable.add(name)
            continue
        key = match[1].decode(), hour.replace(hour=0)
        day = found.setdefault(key, _Day(0, BEGINNING))
        day.requests += int(value)
        day.last_used = max(day.last_used, min(at, hour + HOUR))
    return found


def _add(days: Mapping[tuple[str, datetime], _Day]) -> None:
    names = {name for name, _ in days}
    owners: dict[str, int | None] = {}
    for model in (ApiToken, ApiKey):
        owners.update(model._default_manager.filter(key_id__in=names).values_list("key_id", "tenant_id"))
    # In one order, so that two writers cannot wait for each other.
    rows = sorted(((key, use) for key, use in days.items() if key[0] in owners), key=lambda row: row[0])
    with connection.cursor() as cursor:
        cursor.execute(
            _ADD,
            [
                [name for (name, _), _ in rows],
                [start.date() for (_, start), _ in rows],
                [owners[name] or 0 for (name, _), _ in rows],
                [use.requests for _, use in rows],
                [use.last_used for _, use in rows],
            ],
        )
