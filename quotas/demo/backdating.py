"""Writes what happened as of when it happened.

The database stamps every change with its own clock and lets nobody restamp it. Only the owner of the tables can, so
the demo is written by the owner, in one transaction that ends with every trigger in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.apps import apps
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import NOT_PROVIDED, DateTimeField, Model
from psycopg.sql import SQL, Identifier

from headroom_edge.algorithms.base import SECOND_US
from quotas.models import Outbox
from quotas.models.revision import revisions_stamp
from tenants.privileges import as_owner

APPS: Final = ("tenants", "quotas")
# How long publishing took then.
PUBLISHED_AFTER_US: Final = 40_000


@dataclass(frozen=True, slots=True)
class TimestampColumn:
    table: str
    column: str


@contextmanager
def as_table_owner() -> Iterator[None]:
    """All of it or nothing, as the owner of the tables."""
    with as_owner("default"), transaction.atomic():
        yield


@contextmanager
def backdated(at: datetime) -> Iterator[None]:
    """What is written in the block was written at `at`."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        (since,) = cursor.fetchone()
        yield
        # Rows wait with checks that are due at the end; a table with such rows cannot be altered.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for stamp in timestamp_columns():
            _restamp(cursor, stamp, since, at)
        revisions_stamp(int(at.timestamp()) * SECOND_US + PUBLISHED_AFTER_US)
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


def timestamp_columns() -> list[TimestampColumn]:
    """Every column that the database fills with its time; what waits to be published waits since now."""
    models = [model for app in APPS for model in apps.get_app_config(app).get_models() if model is not Outbox]
    return [TimestampColumn(model._meta.db_table, name) for model in models for name in _stamped(model)]


def _stamped(model: type[Model]) -> Iterator[str]:
    for field in model._meta.concrete_fields:
        is_ours = isinstance(field, DateTimeField) and model._meta.managed
        if is_ours and (field.db_default is not NOT_PROVIDED or field.name == "pgh_created_at"):
            yield field.attname


def _restamp(cursor: CursorWrapper, stamp: TimestampColumn, since: datetime, at: datetime) -> None:
    table, column = Identifier(stamp.table), Identifier(stamp.column)
    cursor.execute(SQL("SELECT EXISTS (SELECT 1 FROM {} WHERE {} >= %s)").format(table, column), [since])
    if not cursor.fetchone()[0]:
        return
    cursor.execute(SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(table))
    cursor.execute(SQL("UPDATE {0} SET {1} = %s WHERE {1} >= %s").format(table, column), [at, since])
    cursor.execute(SQL("ALTER TABLE {} ENABLE TRIGGER USER").format(table))
