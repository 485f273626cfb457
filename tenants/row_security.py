"""Migration operations: which rows of a table the application sees, depending on the setting `headroom.tenant`."""

from __future__ import annotations

from django.db.migrations import RunSQL

# In a sub-select, the setting is read once per statement instead of once per row.
_SETTING = "(SELECT current_setting('headroom.tenant', true))"
NUMBER = "(SELECT nullif(nullif(current_setting('headroom.tenant', true), '*'), '')::bigint)"
EVERYTHING = f"{_SETTING} = '*'"
IS_TENANT = f"{NUMBER} IS NOT NULL"


def isolate(table: str, rule: str) -> RunSQL:
    """`rule` is an SQL condition on a row, used when the setting names a tenant."""
    return RunSQL(
        f"""
        ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
        CREATE POLICY headroom_tenant ON {table} USING ({EVERYTHING} OR {rule});
        """,
        f"""
        DROP POLICY headroom_tenant ON {table};
        ALTER TABLE {table} DISABLE ROW LEVEL SECURITY;
        """,
    )


def of_tenant(table: str, column: str) -> RunSQL:
    """A row belongs to the tenant whose number is in `column`."""
    return isolate(table, f"{column} = {NUMBER}")


def of_tenant_in_lists(table: str, column: str) -> RunSQL:
    """As `of_tenant`, for a table that staff page through.

    Postgres takes the condition of `isolate` for true in 1 of 200 rows, so that it sorts the whole table for the
    first page. It takes a CASE for true in half of them, and then walks the index of the order.
    """
    return RunSQL(
        f"""
        ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
        DROP POLICY IF EXISTS headroom_tenant ON {table};
        CREATE POLICY headroom_tenant ON {table}
            USING (CASE WHEN {EVERYTHING} THEN true ELSE {column} = {NUMBER} END);
        """,
        f"""
        DROP POLICY headroom_tenant ON {table};
        CREATE POLICY headroom_tenant ON {table} USING ({EVERYTHING} OR {column} = {NUMBER});
        """,
    )


def of_nobody(table: str) -> RunSQL:
    """No tenant sees any row."""
    return isolate(table, "false")
