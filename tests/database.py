"""Rows of the test database, put in and taken out in bulk: a world that many tests start from is built once.

The functions belong to the owner of the tables, so they pass row-level security and fire no triggers. They restore
what the services wrote, triggers included, in a fraction of the time that the services need.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from django.db import connection
from django.db.backends.utils import CursorWrapper

from config.data_folders import APPLICATION

P = ParamSpec("P")
T = TypeVar("T")

_SQL: Final = (
    "CREATE SCHEMA tests",
    f"GRANT USAGE ON SCHEMA tests TO {APPLICATION}",
    """
    CREATE FUNCTION tests.contents() RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER AS $$
    DECLARE found jsonb := '{}'; name text; content jsonb;
    BEGIN
        FOR name IN SELECT relname FROM pg_class
            WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
        LOOP
            EXECUTE format('SELECT jsonb_agg(to_jsonb(t)) FROM public.%I t', name) INTO content;
            IF content IS NOT NULL THEN found := found || jsonb_build_object(name, content); END IF;
        END LOOP;
        RETURN found;
    END $$
    """,
    """
    CREATE FUNCTION tests.slices() RETURNS jsonb LANGUAGE sql SECURITY DEFINER AS $$
        SELECT coalesce(jsonb_object_agg(slice.relname, jsonb_build_object(
            'parent', parent.relname, 'bounds', pg_get_expr(slice.relpartbound, slice.oid))), '{}')
        FROM pg_class slice JOIN pg_inherits ON inhrelid = slice.oid JOIN pg_class parent ON parent.oid = inhparent
        WHERE slice.relnamespace = 'public'::regnamespace AND slice.relispartition AND slice.relkind = 'r'
    $$
    """,
    # False, and nothing is put, where one of the tables has rows already.
    """
    CREATE FUNCTION tests.put(contents jsonb, slices jsonb) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $$
    DECLARE name text; columns text; is_used boolean;
    BEGIN
        FOR name IN SELECT jsonb_object_keys(contents) LOOP
            EXECUTE format('SELECT EXISTS (SELECT 1 FROM public.%I)', name) INTO is_used;
            IF is_used THEN RETURN false; END IF;
        END LOOP;
        FOR name IN SELECT jsonb_object_keys(slices) LOOP
            CONTINUE WHEN to_regclass(format('public.%I', name)) IS NOT NULL;
            EXECUTE format('CREATE TABLE public.%I PARTITION OF public.%I %s',
                name, slices -> name ->> 'parent', slices -> name ->> 'bounds');
            EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY', name);
        END LOOP;
        PERFORM set_config('session_replication_role', 'replica', true);
        FOR name IN SELECT jsonb_object_keys(contents) LOOP
            SELECT string_agg(quote_ident(attname), ', ') INTO columns FROM pg_attribute
                WHERE attrelid = format('public.%I', name)::regclass
                AND attnum > 0 AND NOT attisdropped AND attgenerated = '';
            EXECUTE format(
                'INSERT INTO public.%1$I (%2$s) OVERRIDING SYSTEM VALUE '
                'SELECT %2$s FROM jsonb_populate_recordset(NULL::public.%1$I, $1)', name, columns
            ) USING contents -> name;
        END LOOP;
        PERFORM set_config('session_replication_role', 'origin', true);
        RETURN true;
    END $$
    """,
    # Most tables are empty after most tests, and a TRUNCATE of all of them costs more than the test did. The lock
    # waits for writers that a test has left behind. Of the four that are left out, migrations fill
    # three and django_db_setup one; no test changes them.
    """
    CREATE FUNCTION tests.empty() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
    DECLARE leaf regclass; is_used boolean;
    BEGIN
        PERFORM set_config('session_replication_role', 'replica', true);
        FOR leaf IN SELECT oid FROM pg_class
            WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0
            AND relname NOT IN ('django_migrations', 'django_content_type', 'auth_permission', 'tenants_keyversion')
        LOOP
            EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', leaf);
            EXECUTE format('SELECT EXISTS (SELECT 1 FROM %s)', leaf) INTO is_used;
            IF is_used THEN EXECUTE format('DELETE FROM %s', leaf); END IF;
        END LOOP;
        PERFORM set_config('session_replication_role', 'origin', true);
    END $$
    """,
)


def install(cursor: CursorWrapper) -> None:
    """By the owner of the tables, once the migrations have run."""
    for statement in _SQL:
        cursor.execute(statement)


def empty() -> None:
    """Takes out what a test has committed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tests.empty()")


def kept(build: Callable[P, T]) -> Callable[P, T]:
    """For what builds a world by the services: the first call does, later ones put the same rows.

    Where a table that the world needs is not empty, it is built: rows of two worlds would collide.
    """
    worlds: dict[Any, tuple[str, str, T]] = {}

    @wraps(build)
    def make(*args: P.args, **kwargs: P.kwargs) -> T:
        key = (args, tuple(sorted(kwargs.items())))
        if key in worlds:
            contents, slices, result = worlds[key]
            return result if _put(contents, slices) else build(*args, **kwargs)
        before = _asked("contents")
        result = build(*args, **kwargs)
        after = _asked("contents")
        written = {table: rows for table, rows in after.items() if rows != before.get(table)}
        if not written.keys() & before.keys():
            worlds[key] = (json.dumps(written), _slices_of(written), result)
        return result

    return make


def _slices_of(tables: Container[str]) -> str:
    """The end of the test that built them takes those away that it made."""
    return json.dumps({name: slice_ for name, slice_ in _asked("slices").items() if slice_["parent"] in tables})


def _asked(function: str) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT tests.{function}()")
        return dict(json.loads(cursor.fetchone()[0]))


def _put(contents: str, slices: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tests.put(%s, %s)", [contents, slices])
        return bool(cursor.fetchone()[0])
