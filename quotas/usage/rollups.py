"""Adds what a batch counted to the rollups, and keeps its arrivals and denials.

Everything here runs within the caller's transaction. A table takes only what it would still keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

from django.db import connection
from django.utils.crypto import salted_hmac
from psycopg.sql import SQL, Composable, Identifier, Literal

from quotas.models.usage import BEGINNING, ROLLUPS, Arrival, Denial, Partitioned
from quotas.usage import fields
from quotas.usage.partitions import ensure, oldest_kept, slice_of

SUBJECT_BYTES = 16
SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)

_CELL = (
    "start bigint, tenant_number int, endpoint_number int, outcome text, limit_number int, count bigint, cost bigint"
)
# Sorted, so that the rows of a page are written together; one row per key, as ON CONFLICT demands.
_ADD = SQL("""
    INSERT INTO {table} AS t (start, tenant_number, endpoint_number, outcome, limit_number, count, cost)
    SELECT to_timestamp(start - start % {step}), tenant_number, endpoint_number, outcome, limit_number,
           sum(count), sum(cost)
    FROM staged WHERE start >= {oldest} GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
    ON CONFLICT (start, tenant_number, endpoint_number, outcome, limit_number)
    DO UPDATE SET count = t.count + EXCLUDED.count, cost = t.cost + EXCLUDED.cost
""")


@contextmanager
def staged(definition: Composable) -> Iterator[Any]:
    """A cursor with a temporary table `staged`: COPY into it is how many rows come in fast."""
    with connection.cursor() as cursor:
        cursor.execute(SQL("CREATE TEMPORARY TABLE staged ({}) ON COMMIT DROP").format(definition))
        yield cursor
        cursor.execute("DROP TABLE staged")


def add_cells(cells: Sequence[fields.Cell], now: datetime) -> None:
    if not cells:
        return
    lines = [f"{start}\t{s[0]}\t{s[1]}\t{s[2]}\t{s[3]}\t{count}\t{cost}\n" for start, s, count, cost in cells]
    moments = [BEGINNING + start * SECOND for start in {cell.start for cell in cells}]
    with staged(SQL(_CELL)) as cursor:
        with cursor.copy("COPY staged FROM STDIN") as copy:
            copy.write("".join(lines))
        for model in ROLLUPS:
            oldest = oldest_kept(model, now)
            ensure(slice_of(model, moment) for moment in moments if moment >= oldest)
            table, step = Identifier(model._meta.db_table), Literal(model.step // SECOND)
            cursor.execute(_ADD.format(table=table, step=step, oldest=Literal((oldest - BEGINNING) // SECOND)))


def add_arrivals(arrivals: Iterable[fields.Arrival], now: datetime) -> int:
    rows = [(_moment(a.at_us), a.tenant, a.endpoint, a.subject, a.cost, a.allowed) for a in arrivals]
    return _insert(Arrival, ("at", "tenant_number", "endpoint_number", "subject", "cost", "allowed"), rows, now)


def add_denials(denials: Iterable[fields.Denied], now: datetime) -> int:
    rows = [
        (
            *(_moment(d.at_us), _digest(d), d.tenant, d.endpoint, d.limit, d.reason, d.cost),
            *(d.retry_us, d.revision, subject_hash(d.subject)),
        )
        for d in denials
    ]
    columns = ("at", "digest", "tenant_number", "endpoint_number", "limit_number", "reason", "cost")
    return _insert(Denial, (*columns, "retry_us", "revision", "subject"), rows, now)


def _insert(model: type[Partitioned], columns: Sequence[str], rows: Iterable[tuple[Any, ...]], now: datetime) -> int:
    """Rows that are there already are passed over; the first column is their moment."""
    kept = [row for row in rows if oldest_kept(model, now) <= row[0] <= now + fields.FUTURE]
    if not kept:
        return 0
    ensure(slice_of(model, row[0]) for row in kept)
    table, names = Identifier(model._meta.db_table), SQL(", ").join(map(Identifier, columns))
    with staged(SQL("LIKE {}").format(table)) as cursor:
        with cursor.copy(SQL("COPY staged ({}) FROM STDIN").format(names)) as copy:
            for row in kept:
                copy.write_row(row)
        cursor.execute(SQL("INSERT INTO {0} ({1}) SELECT {1} FROM staged ON CONFLICT DO NOTHING").format(table, names))
        return int(cursor.rowcount)


def _moment(at_us: int) -> datetime:
    return BEGINNING + at_us * MICROSECOND


def subject_hash(values: bytes) -> bytes:
    """What stands for a subject in Postgres: one subject, one hash, and no way back without the secret."""
    if not values:
        return b""
    return salted_hmac("quotas.usage.subject", values, algorithm="sha256").digest()[:SUBJECT_BYTES]


def _digest(denied: fields.Denied) -> int:
    facts = f"{denied.endpoint} {denied.limit} {denied.reason} {denied.cost} {denied.revision} ".encode()
    return int.from_bytes(blake2b(facts + denied.subject, digest_size=8).digest(), signed=True)
