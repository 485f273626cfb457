"""Writes columns of numbers to Postgres by binary COPY, without a Python object per row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from django.db import connection
from psycopg.sql import SQL, Composable, Identifier

from quotas.observations.arrays import Ints
from quotas.observations.cells import Cells

_BEGIN: Final = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_END: Final = b"\xff\xff"
_FIELDS, _LENGTH = np.dtype(">i2"), np.dtype(">i4")
# The binary COPY representation of Postgres types.
BIGINT, INTEGER, LETTER = np.dtype(">i8"), np.dtype(">i4"), np.dtype("u1")
_EPOCH_S: Final = 946_684_800  # Postgres timestamps count from 2000-01-01
_MICROSECONDS: Final = 1_000_000


def timestamps(starts_s: Ints) -> Ints:
    """Epoch seconds as Postgres timestamps: microseconds since 2000."""
    return (starts_s - _EPOCH_S) * _MICROSECONDS


def binary(columns: Sequence[tuple[np.dtype[Any], Ints]]) -> bytes:
    """A whole binary COPY stream; each column with its Postgres type."""
    names: list[tuple[str, np.dtype[Any]]] = [("fields", _FIELDS)]
    for place, (kind, _) in enumerate(columns):
        names += [(f"length{place}", _LENGTH), (f"value{place}", kind)]
    rows = np.empty(len(columns[0][1]), names)
    rows["fields"] = len(columns)
    for place, (kind, values) in enumerate(columns):
        rows[f"length{place}"] = kind.itemsize
        rows[f"value{place}"] = values
    return b"".join((_BEGIN, rows.tobytes(), _END))


def copy_cells(cells: Cells, table: str) -> None:
    """Copies into a table that has the columns of a rollup."""
    rows = binary(
        [
            (BIGINT, timestamps(cells.start)),
            (INTEGER, cells.tenant),
            (INTEGER, cells.endpoint),
            (LETTER, cells.outcome),
            (INTEGER, cells.limit),
            (BIGINT, cells.count),
            (BIGINT, cells.cost),
        ]
    )
    names = "start, tenant_number, endpoint_number, outcome, limit_number, count, cost"
    statement = SQL("COPY {} ({}) FROM STDIN BINARY").format(Identifier(table), SQL(names))
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.write(rows)


@contextmanager
def staged(definition: Composable) -> Iterator[Any]:
    """A cursor with a temporary table `staged`, to COPY into and then merge from by one statement."""
    with connection.cursor() as cursor:
        cursor.execute(SQL("CREATE TEMPORARY TABLE staged ({}) ON COMMIT DROP").format(definition))
        yield cursor
        cursor.execute("DROP TABLE staged")


def like(table: str) -> Composable:
    return SQL("LIKE {}").format(Identifier(table))
