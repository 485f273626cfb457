"""Database privileges. The owner creates the tables; the application's role can only read and write rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.apps import apps
from django.conf import settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from pghistory.models import Event
from psycopg.sql import SQL, Composable, Identifier

# Rows may be inserted, never updated or deleted.
WRITTEN_ONCE: Final = ("quotas_auditevent",)
READ_ONLY: Final = ("django_migrations",)

_GRANTS: Final = (
    "GRANT USAGE ON SCHEMA public TO {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
    "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {role}",
)
# These functions run with the owner's rights, so only the application may call them (quotas.usage.partitions,
# quotas.tenant_list).
OWNERS_FUNCTIONS: Final = ("headroom_slice_make", "headroom_slice_drop", "headroom_tenants_found")
# pgtrigger calls this before each trigger, so that a session can disable triggers. The audit must not be disabled.
_NO_IGNORING: Final = """
    CREATE OR REPLACE FUNCTION public._pgtrigger_should_ignore(trigger_name NAME) RETURNS BOOLEAN
    LANGUAGE sql IMMUTABLE AS 'SELECT FALSE'
"""


@contextmanager
def as_owner(alias: str) -> Iterator[BaseDatabaseWrapper]:
    """Reconnect the alias to the same database, as the role that owns the tables."""
    connection = connections[alias]
    connection.close()
    former = connection.settings_dict
    connection.settings_dict = {**former, **settings.MIGRATION_DATABASE, "NAME": former["NAME"]}
    try:
        yield connection
    finally:
        connection.close()
        connection.settings_dict = former


def grant(connection: BaseDatabaseWrapper, role: str) -> None:
    """Grant the application exactly what it needs. Run it as the owner, in a transaction."""
    with connection.cursor() as cursor:
        cursor.execute(_NO_IGNORING)
        cursor.execute("SELECT current_user")
        (owner,) = cursor.fetchone()
        if role != owner:
            for statement in _statements(role, _present(cursor)):
                cursor.execute(statement)


def _present(cursor: CursorWrapper) -> set[str]:
    """The existing tables and functions: with a partial migration, some do not exist yet."""
    cursor.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace "
        "UNION SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
    )
    return {name for (name,) in cursor.fetchall()}


def _statements(role: str, present: set[str]) -> Iterator[Composable]:
    name = Identifier(role)
    for text in _GRANTS:
        yield SQL(text).format(role=name)
    for table in present.intersection(_append_only()):
        yield SQL("REVOKE UPDATE, DELETE ON {} FROM {}").format(Identifier(table), name)
    for table in present.intersection(READ_ONLY):
        yield SQL("REVOKE INSERT, UPDATE, DELETE ON {} FROM {}").format(Identifier(table), name)
    for function in present.intersection(OWNERS_FUNCTIONS):
        yield SQL("REVOKE ALL ON FUNCTION {} FROM PUBLIC").format(Identifier(function))
        yield SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(Identifier(function), name)


def _append_only() -> Iterator[str]:
    yield from WRITTEN_ONCE
    for model in apps.get_models():
        if issubclass(model, Event) and model._meta.managed:
            yield model._meta.db_table
