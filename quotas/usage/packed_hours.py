"""Packs the 10 s and minute rollups: one row per hour and series, once the hour is over.

Counts are appended to a packed row, and readers add up what they find, so late counts need no special case. Writers of
fresh rows share a lock and packing holds it exclusively, so that no row is written to an hour that is being packed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import numpy as np
from django.db import OperationalError, connection, transaction
from psycopg.sql import SQL, Composable, Identifier, Literal

from quotas.locks import Lock, take_lock
from quotas.models.packed_usage import FRESH, PACKED
from quotas.models.usage import BEGINNING, SLOT, Rollup, UsageMinute, UsageStep, slot_of
from quotas.models.usage_rates import FoldName, FoldState
from quotas.observations.cells import Cells
from quotas.usage.partitions import LOCK_TIMEOUT, Partition, ensure_partitions, existing_partitions, partition_of
from quotas.usage.postgres_copy import copy_cells, like, staged

log = logging.getLogger(__name__)

LATE: Final = timedelta(minutes=10)  # most late counts have arrived by then
_FOLDS: Final[Mapping[type[Rollup], FoldName]] = {UsageStep: FoldName.STEPS, UsageMinute: FoldName.MINUTES}
HOUR_S: Final = 3_600
# An entry is step number << 22 | count. A count that does not fit into 22 bits is stored in `counts`.
_PACK: Final = SQL("""
    INSERT INTO {packed} AS p (slot, tenant_number, endpoint_number, outcome, limit_number, entries, counts, costs)
    SELECT slot, tenant_number, endpoint_number, outcome, limit_number,
        array_agg(((extract(epoch FROM start - slot)::int / {step}) << 22) | least(count, 4194303)::int ORDER BY start),
        CASE WHEN max(count) >= 4194303 THEN array_agg(count ORDER BY start) END,
        CASE WHEN bool_or(cost <> count) THEN array_agg(cost ORDER BY start) END
    FROM (SELECT *, date_bin('1 hour', start, 'epoch') AS slot FROM {rows} WHERE {condition}) AS r
    GROUP BY slot, tenant_number, endpoint_number, outcome, limit_number
    ON CONFLICT (slot, tenant_number, endpoint_number, outcome, limit_number) DO UPDATE SET
        entries = p.entries || EXCLUDED.entries,
        counts = {counts},
        costs = {costs}
""")
# Joins `counts` or `costs` of the old and new row. NULL means "as the entry says", for the array or one element.
_BESIDE: Final = SQL("""
    CASE WHEN p.{0} IS NOT NULL OR EXCLUDED.{0} IS NOT NULL THEN
        coalesce(p.{0}, array_fill(NULL::bigint, ARRAY[cardinality(p.entries)]))
        || coalesce(EXCLUDED.{0}, array_fill(NULL::bigint, ARRAY[cardinality(EXCLUDED.entries)])) END
""")


def fresh_since(now: datetime) -> datetime:
    """Rows from here on are written as fresh rows. Older ones are packed directly, as their hour is or soon will be."""
    return slot_of(now - LATE) - SLOT


def pack_cells(model: type[Rollup], cells: Cells) -> None:
    if len(cells):
        with staged(like(FRESH[model]._meta.db_table)):
            copy_cells(cells, "staged")
            starts = np.unique(cells.start // HOUR_S).tolist()
            _pack_rows(model, "staged", SQL("true"), {BEGINNING + start * SLOT for start in starts})


def _pack_rows(model: type[Rollup], rows: str, condition: Composable, starts: set[datetime]) -> None:
    """Packs rows of a table that has the columns of a rollup; `starts` are the hours they lie in."""
    packed = PACKED[model]
    ensure_partitions(partition_of(packed, start) for start in starts)
    statement = _PACK.format(
        packed=Identifier(packed._meta.db_table),
        rows=Identifier(rows),
        step=Literal(int(model.step.total_seconds())),
        condition=condition,
        counts=_BESIDE.format(Identifier("counts")),
        costs=_BESIDE.format(Identifier("costs")),
    )
    with connection.cursor() as cursor:
        cursor.execute(statement)


def pack_finished_hours(now: datetime) -> int:
    """Packs the hours that are over and completely folded; returns how many."""
    folded = dict(FoldState.objects.values_list("name", "until"))
    packed = 0
    for model, fresh in FRESH.items():
        until = min(now, folded.get(_FOLDS[model], now))
        due = [part for part in existing_partitions(fresh) if part.end + LATE <= until]
        packed += sum(_pack(model, part) for part in due)
    return packed


def _pack(model: type[Rollup], part: Partition) -> bool:
    """Packs the whole partition and drops it, or does nothing: a partition in use is left for the next run."""
    within = SQL("start >= {} AND start < {}").format(Literal(part.start), Literal(part.end))
    table = part.model._meta.db_table
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            take_lock(Lock.FRESH_ROWS)
            _pack_rows(model, table, within, {part.start})
            cursor.execute(SQL("SET LOCAL lock_timeout = {}").format(Literal(LOCK_TIMEOUT)))
            cursor.execute("SELECT headroom_slice_drop(%s, %s)", [table, part.name])
    except OperationalError as error:
        log.warning("%s was not packed; the next run will try again: %s", part.name, error)
        return False
    return True
