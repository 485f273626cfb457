"""Adds cells to the rollups and totals, and stores sampled arrivals and denials.

Everything here runs within the caller's transaction. Rows older than the retention of their table are skipped.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

import numpy as np
from django.db import connection
from psycopg.sql import SQL, Identifier

from quotas.locks import Lock, take_lock
from quotas.models.packed_usage import FRESH
from quotas.models.usage import BEGINNING, ROLLUPS, Arrival, Denial, Partitioned, Rollup
from quotas.models.usage_rates import EVERY_ENDPOINT
from quotas.models.usage_totals import EVERYONE, NO_TIER, TOTALS, WHOLE, tier_total_number
from quotas.observations.arrays import Ints
from quotas.observations.cells import Cells
from quotas.observations.packing import groups
from quotas.usage import batch_format
from quotas.usage.packed_hours import fresh_since, pack_cells
from quotas.usage.partitions import ensure_partitions, oldest_kept, partition_of
from quotas.usage.postgres_copy import copy_cells, like, staged
from tenants.keyring import SUBJECTS, read_keys
from tenants.models import Tenant

_ADD_TALLY = """
    INSERT INTO quotas_tally AS t (endpoint_number, outcome, count, cost) VALUES (%s, %s, %s, %s)
    ON CONFLICT (endpoint_number, outcome) DO UPDATE SET count = t.count + EXCLUDED.count, cost = t.cost + EXCLUDED.cost
"""

SUBJECT_BYTES = 16
SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)
# `staged` has one row per key, as ON CONFLICT requires, sorted so that rows of one page are written together.
_ADD = SQL("""
    INSERT INTO {table} AS t (start, tenant_number, endpoint_number, outcome, limit_number, count, cost)
    SELECT start, tenant_number, endpoint_number, outcome, limit_number, count, cost FROM staged
    ON CONFLICT (start, tenant_number, endpoint_number, outcome, limit_number)
    DO UPDATE SET count = t.count + EXCLUDED.count, cost = t.cost + EXCLUDED.cost
""")


def add_tally(cells: Cells) -> None:
    order = np.lexsort((cells.outcome, cells.endpoint))
    cells = cells.where(order)
    first = groups(cells.endpoint, cells.outcome)
    if not len(first):
        return
    sums = (np.add.reduceat(column, first).tolist() for column in (cells.count, cells.cost))
    letters = map(chr, cells.outcome[first].tolist())
    with connection.cursor() as cursor:
        cursor.executemany(_ADD_TALLY, list(zip(cells.endpoint[first].tolist(), letters, *sums, strict=True)))


def add_cells(cells: Cells, now: datetime, models: Sequence[type[Rollup]] = ROLLUPS) -> None:
    """`models` finest first: each rollup is summed from the one before it."""
    for model in models:
        cells = cells.summed(model.step // SECOND)
        oldest = (oldest_kept(model, now) - BEGINNING) // SECOND
        kept = cells.where(cells.start >= oldest)
        if model in FRESH:
            add_fine(model, kept, now)
        else:
            _add(model, kept)
        add_totals(model, kept)


def add_fine(model: type[Rollup], cells: Cells, now: datetime) -> None:
    """Cells of the current hour become rows, older ones are appended to packed hours."""
    take_lock(Lock.FRESH_ROWS, shared=True)
    is_fresh = cells.start >= (fresh_since(now) - BEGINNING) // SECOND
    _add(FRESH[model], cells.where(is_fresh))
    pack_cells(model, cells.where(~is_fresh))


def add_totals(model: type[Rollup], cells: Cells) -> None:
    for table, total in totals_of(model, cells):
        _add(table, total)


def totals_of(model: type[Rollup], cells: Cells) -> Iterator[tuple[type[Rollup], Cells]]:
    """The same cells summed per tier, over everyone and, for some rollups, over all endpoints of a tenant."""
    step_s = model.step // SECOND
    if model in WHOLE:
        yield WHOLE[model], replace(cells, endpoint=np.full(len(cells), EVERY_ENDPOINT)).summed(step_s)
    by_tier = replace(cells, tenant=_tiers(cells.tenant)).summed(step_s)
    everyone = replace(by_tier, tenant=np.full(len(by_tier), EVERYONE)).summed(step_s)
    yield TOTALS[model], Cells.joined([by_tier, everyone])


def _tiers(tenants: Ints) -> Ints:
    """The tier of each tenant, as a tenant number in the totals."""
    numbers, places = np.unique(tenants, return_inverse=True)
    known = dict(Tenant.objects.filter(number__in=numbers.tolist()).values_list("number", "tier_id"))
    tiers = [tier_total_number(known[number]) if number in known else NO_TIER for number in numbers.tolist()]
    return np.array(tiers, np.int64)[places]


def _add(model: type[Rollup], cells: Cells) -> None:
    if not len(cells):
        return
    ensure_partitions(partition_of(model, BEGINNING + start * SECOND) for start in np.unique(cells.start).tolist())
    with staged(like(model._meta.db_table)) as cursor:
        copy_cells(cells, "staged")
        cursor.execute(_ADD.format(table=Identifier(model._meta.db_table)))


def add_arrivals(arrivals: Iterable[batch_format.ArrivalRecord], now: datetime) -> int:
    rows = [(_moment(a.at_us), a.tenant, a.endpoint, a.subject, a.cost, a.allowed) for a in arrivals]
    return _insert(Arrival, ("at", "tenant_number", "endpoint_number", "subject", "cost", "allowed"), rows, now)


def add_denials(denials: Iterable[batch_format.DenialRecord], now: datetime) -> int:
    denials = list(denials)
    if not denials:
        return 0
    key = read_keys(SUBJECTS).newest_first[0]
    rows = [
        (
            *(_moment(d.at_us), _digest(d), d.tenant, d.endpoint, d.limit, d.reason, d.cost),
            *(d.retry_us, d.revision, subject_hash(d.subject, key)),
        )
        for d in denials
    ]
    columns = ("at", "digest", "tenant_number", "endpoint_number", "limit_number", "reason", "cost")
    return _insert(Denial, (*columns, "retry_us", "revision", "subject"), rows, now)


def _insert(model: type[Partitioned], columns: Sequence[str], rows: Iterable[tuple[Any, ...]], now: datetime) -> int:
    """Skips rows that exist; the first column is the time. Returns how many were inserted."""
    kept = [row for row in rows if oldest_kept(model, now) <= row[0] <= now + batch_format.FUTURE]
    if not kept:
        return 0
    ensure_partitions(partition_of(model, row[0]) for row in kept)
    table, names = Identifier(model._meta.db_table), SQL(", ").join(map(Identifier, columns))
    with staged(like(model._meta.db_table)) as cursor:
        with cursor.copy(SQL("COPY staged ({}) FROM STDIN").format(names)) as copy:
            for row in kept:
                copy.write_row(row)
        cursor.execute(SQL("INSERT INTO {0} ({1}) SELECT {1} FROM staged ON CONFLICT DO NOTHING").format(table, names))
        return int(cursor.rowcount)


def _moment(at_us: int) -> datetime:
    return BEGINNING + at_us * MICROSECOND


def subject_hash(values: bytes, key: bytes) -> bytes:
    """A keyed hash, so that Postgres holds no subject in clear text. Empty for the tenant as a whole."""
    return hmac.digest(key, values, "sha256")[:SUBJECT_BYTES] if values else b""


def _digest(denied: batch_format.DenialRecord) -> int:
    facts = f"{denied.endpoint} {denied.limit} {denied.reason} {denied.cost} {denied.revision} ".encode()
    return int.from_bytes(blake2b(facts + denied.subject, digest_size=8).digest(), signed=True)
