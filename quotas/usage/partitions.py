"""Creates and drops the partitions of the usage tables, which are partitioned by time."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import OperationalError, connection, transaction
from psycopg.sql import SQL, Literal

from quotas.locks import Lock, take_lock
from quotas.models.usage import BEGINNING, Partitioned
from quotas.models.usage_rates import PARTITIONED

log = logging.getLogger(__name__)

AHEAD = 2  # partitions beyond the current one
# DROP waits for running readers, and new readers wait behind it: better to give up soon and retry in an hour.
LOCK_TIMEOUT = "2s"
_STAMP = re.compile(r"_(\d{8}t\d{2})$")
_STAMP_FORMAT = "%Y%m%dt%H"


@dataclass(frozen=True, slots=True)
class Partition:
    model: type[Partitioned]
    start: datetime

    @property
    def end(self) -> datetime:
        return self.start + self.model.slice

    @property
    def name(self) -> str:
        return f"{self.model._meta.db_table}_{self.start:{_STAMP_FORMAT}}"


def partition_of(model: type[Partitioned], moment: datetime) -> Partition:
    return Partition(model, moment - (moment - BEGINNING) % model.slice)


def oldest_kept(model: type[Partitioned], now: datetime) -> datetime:
    return now - timedelta(days=settings.HEADROOM_KEEP_DAYS[model.keep])


def ensure_partitions(partitions: Iterable[Partition]) -> int:
    """Creates the missing ones within the caller's transaction; returns how many."""
    missing = _missing(set(partitions))
    if missing:
        take_lock(Lock.PARTITIONS)
        # Another process may have created them while this one waited for the lock.
        missing = _missing(missing)
    for part in sorted(missing, key=lambda part: part.name):
        _make(part)
    return len(missing)


def _missing(partitions: set[Partition]) -> set[Partition]:
    names = [part.name for part in partitions]
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM unnest(%s::text[]) AS name WHERE to_regclass(name) IS NULL", [names])
        missing = {name for (name,) in cursor}
    return {part for part in partitions if part.name in missing}


def _make(part: Partition) -> None:
    # A SQL function with the owner's rights (quotas.migrations 0005): the application itself may not create tables.
    facts = (part.model._meta.db_table, part.name, part.start, part.end, part.model.fill_percent)
    with connection.cursor() as cursor:
        cursor.execute("SELECT headroom_slice_make(%s, %s, %s, %s, %s)", facts)


def create_future_partitions(now: datetime) -> int:
    with transaction.atomic():
        return ensure_partitions(
            partition_of(model, now + i * model.slice) for model in PARTITIONED for i in range(AHEAD + 1)
        )


def drop_expired_partitions(now: datetime) -> int:
    old = [part for model in PARTITIONED for part in existing_partitions(model) if part.end <= oldest_kept(model, now)]
    return sum(_drop(part) for part in old)


def existing_partitions(model: type[Partitioned]) -> list[Partition]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass", [model._meta.db_table]
        )
        stamps = [_STAMP.search(name) for (name,) in cursor]
    return [Partition(model, datetime.strptime(m[1], _STAMP_FORMAT).replace(tzinfo=UTC)) for m in stamps if m]


def _drop(part: Partition) -> bool:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(SQL("SET LOCAL lock_timeout = {}").format(Literal(LOCK_TIMEOUT)))
            cursor.execute("SELECT headroom_slice_drop(%s, %s)", [part.model._meta.db_table, part.name])
    except OperationalError as error:
        log.warning("%s was not dropped; the next run will try again: %s", part.name, error)
        return False
    return True
