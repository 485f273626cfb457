"""Backup and restore of PostgreSQL, by its own programs. Redis needs no backup: the publisher fills it again."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tenants.keyring import API_KEYS, read_keys
from tenants.privileges import as_owner


class BackupError(Exception):
    """The message is one sentence for the operator."""


def backup_write(file: Path) -> int:
    """Writes one consistent snapshot and returns its size. The file appears only when it is complete."""
    if file.exists():
        raise BackupError(f"{file} exists; name a new file")
    draft = file.with_name(f"{file.name}.part")
    try:
        # Readable for its owner only. Owners and privileges are left out: `migrate` grants them, whatever the roles.
        draft.touch(mode=0o600)
        _run("pg_dump", "--format=custom", "--no-owner", "--no-acl", f"--file={draft}", f"--dbname={_target()[0]}")
        draft.rename(file)
    except OSError as error:
        raise BackupError(f"{file} cannot be written ({error.strerror}); choose another place") from None
    finally:
        draft.unlink(missing_ok=True)
    return file.stat().st_size


def backup_read(file: Path) -> None:
    """Restores into an empty database, wholly or not at all. Afterwards run `migrate`."""
    if not file.is_file():
        raise BackupError(f"{file} is not a file; name the one that `backup` wrote")
    if _has_tables():
        name = connection.settings_dict["NAME"]
        raise BackupError(f"the database {name} is not empty; create a new one and name it in DATABASE_URL")
    target, _ = _target()
    _run("pg_restore", "--no-owner", "--no-acl", "--single-transaction", "--exit-on-error", f"--dbname={target}", file)


def check_restored() -> None:
    """Raises BackupError if the backup is of a newer release, KeyringError if SECRET_KEY is another one."""
    loader = MigrationLoader(connection)
    newer = sorted(".".join(place) for place in set(loader.applied_migrations) - set(loader.disk_migrations or ()))
    if newer:
        raise BackupError(f"the backup is of a newer release (it has {newer[-1]}); install that release or a later one")
    read_keys(API_KEYS)


def _has_tables() -> bool:
    with as_owner(connection.alias) as owner, owner.cursor() as cursor:
        return bool(owner.introspection.table_names(cursor))


def _target() -> tuple[str, Mapping[str, str]]:
    """The owner's connection, and the password apart from it: arguments are visible to everyone on the machine."""
    parts: dict[str, Any] = conninfo_to_dict(settings.MIGRATION_DATABASE_URL)
    parts["dbname"] = connection.settings_dict["NAME"]
    password = parts.pop("password", None)
    return make_conninfo(**parts), {"PGPASSWORD": password} if password else {}


def _run(program: str, *arguments: str | Path) -> None:
    command = [_found(program), *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, **_target()[1]}, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise BackupError(f"{program} failed: {said[0].removeprefix(f'{program}: ').removeprefix('error: ')}")


def _found(program: str) -> str:
    inside = settings.HEADROOM_POSTGRES_PROGRAMS
    if inside is not None and (inside / program).exists():
        return str(inside / program)
    outside = shutil.which(program)
    if outside is None:
        raise BackupError(f"{program} is missing; install PostgreSQL's client programs, or run it beside PostgreSQL")
    return outside
