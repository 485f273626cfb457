"""Backdates the demo's changes.

Postgres stamps every change with its own clock, and triggers protect these columns. Only the owner of the tables can
disable the triggers, so the demo is written as the owner, in one transaction that re-enables all of them.
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
# How long publishing took, in the demo's history.
PUBLISHED_AFTER_US: Final = 40_000


@dataclass(frozen=True, slots=True)
class TimestampColumn:
    table: str
    column: str


@contextmanager
def as_table_owner() -> Iterator[None]:
    """One transaction with the rights of the owner of the tables."""
    with as_owner("default"), transaction.atomic():
        yield


@contextmanager
def backdated(at: datetime) -> Iterator[None]:
    """Sets the timestamps of everything written in the block to `at`."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        (since,) = cursor.fetchone()
        yield
        # ALTER TABLE fails while rows have deferred checks pending, so run those checks now.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for stamp in timestamp_columns():
            _restamp(cursor, stamp, since, at)
        revisions_stamp(int(at.timestamp()) * SECOND_US + PUBLISHED_AFTER_US)
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


def timestamp_columns() -> list[TimestampColumn]:
    """Every column that Postgres fills with its time, except the outbox: its rows are pending from now on."""
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
