"""`schema.sql`: what the migrations make of an empty database, loaded in one go because running them all takes seconds.

The file names the migrations it contains, each with a digest of its source; `migrate` runs those that are newer. If one
of them has changed since, or the server is of another version, the file is not used and every migration runs.
`make schema` writes it again.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration
from django.db.migrations.recorder import MigrationRecorder

FILE: Final = Path(__file__).with_name("schema.sql")
DIGEST_LENGTH: Final = 16
_MIGRATION: Final = re.compile(r"^-- migration (\w+)\.(\w+) (\w+)$", re.MULTILINE)
_SERVER: Final = re.compile(r"^-- PostgreSQL (\d+)$", re.MULTILINE)
_QUOTE: Final = re.compile(r"\$\w*\$")
# Comments, settings and commands of psql.
_DROPPED: Final = ("--", "SET ", "SELECT pg_catalog.set_config(", "\\")
# Tables of `public` that no extension has brought along.
_TABLES: Final = """
    SELECT EXISTS (SELECT 1 FROM pg_class AS c WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
        AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE objid = c.oid AND deptype = 'e'))
"""

MigrationName = tuple[str, str]  # app, name


def schema_load(connection: BaseDatabaseWrapper, text: str | None = None) -> bool:
    """Loads the file into an empty database. False, and nothing is done: it is not empty, or the file does not fit."""
    text = FILE.read_text(encoding="utf-8") if text is None else text
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute(_TABLES)
        if cursor.fetchone()[0] or not _fits(connection, text):
            return False
        cursor.execute(text)
        cursor.execute("SELECT set_config('search_path', 'public', true)")
        recorder = MigrationRecorder(connection)
        recorder.ensure_schema()
        applied = [recorder.Migration(app=app, name=name) for app, name in migrations_in(text)]
        recorder.migration_qs.bulk_create(applied)
    return True


def schema_text(dump: str, connection: BaseDatabaseWrapper) -> str:
    """The file for a dump of a database that has every migration."""
    names = MigrationRecorder(connection).applied_migrations()
    digests = digests_of({name: found for name, found in loaded_migrations().items() if name in names})
    lines = [f"-- migration {app}.{name} {digests[app, name]}" for app, name in sorted(digests)]
    return "\n".join(
        ["-- Written by `make schema`; see schema_file.py.", _server(connection), *lines, *_kept(dump), ""]
    )


def migrations_in(text: str) -> dict[MigrationName, str]:
    return {(app, name): digest for app, name, digest in _MIGRATION.findall(text)}


def digests_of(migrations: Mapping[MigrationName, Migration]) -> dict[MigrationName, str]:
    sources = {name: Path(str(sys.modules[found.__module__].__file__)) for name, found in migrations.items()}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest()[:DIGEST_LENGTH] for name, path in sources.items()}


def _fits(connection: BaseDatabaseWrapper, text: str) -> bool:
    contained, present = migrations_in(text), loaded_migrations()
    if not contained or not contained.keys() <= present.keys() or _server(connection) not in text.splitlines()[:2]:
        return False
    return digests_of({name: present[name] for name in contained}) == contained


def loaded_migrations() -> dict[MigrationName, Migration]:
    return dict(MigrationLoader(None, ignore_no_migrations=True).disk_migrations)


def _server(connection: BaseDatabaseWrapper) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version_num")
        return f"-- PostgreSQL {int(cursor.fetchone()[0]) // 10_000}"


def _kept(dump: str) -> list[str]:
    """The statements of a dump, with settings that end with the transaction. Bodies of functions stay as they are."""
    kept = ["SET LOCAL check_function_bodies = false;", "SELECT pg_catalog.set_config('search_path', '', true);"]
    body: str | None = None  # the dollar quote that a line is in
    for line in dump.splitlines():
        if body or (line and not line.startswith(_DROPPED)):
            kept.append(line)
        for quote in _QUOTE.findall(line):
            body = quote if body is None else None if body == quote else body
    return kept
