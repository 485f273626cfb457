"""Operations for migrations: which rows of a table the setting `headroom.tenant` lets the application see."""

from __future__ import annotations

from django.db.migrations import RunSQL

# In a sub-select it is read once a statement, not once a row.
_SETTING = "(SELECT current_setting('headroom.tenant', true))"
NUMBER = "(SELECT nullif(nullif(current_setting('headroom.tenant', true), '*'), '')::bigint)"
EVERYTHING = f"{_SETTING} = '*'"
IS_TENANT = f"{NUMBER} IS NOT NULL"


def isolate(table: str, rule: str) -> RunSQL:
    """`rule`: an SQL condition on a row, for when the setting names a tenant."""
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
    """Each row is the tenant's whose number stands in `column`."""
    return isolate(table, f"{column} = {NUMBER}")


def of_nobody(table: str) -> RunSQL:
    """No tenant sees any row."""
    return isolate(table, "false")
