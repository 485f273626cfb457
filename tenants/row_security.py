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


def of_nobody(table: str) -> RunSQL:
    """No tenant sees any row."""
    return isolate(table, "false")
