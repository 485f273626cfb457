"""Backup and restore of PostgreSQL, by its own programs. Redis needs no backup: the publisher fills it again."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tenants.keyring import API_KEYS, read_keys
from tenants.privileges import as_owner

MIGRATION_TABS: Final = 3  # between the columns of django_migrations
REMEDIES: Final = {
    "pg_dump": "nothing was written, so mend that and run it again",
    "pg_restore": "nothing was restored, so name a whole file that `backup` wrote",
}


class BackupError(Exception):
    """The message is one sentence for the operator."""


def backup_write(file: Path) -> int:
    """Writes one consistent snapshot and returns its size. The file appears only when it is complete."""
    try:
        if os.path.lexists(file):
            raise BackupError(f"{file} exists; name a new file")
        # A new file of a name that nobody can foresee, readable for its owner only: a link that waits there under a
        # known name would have the backup written over another file.
        number, draft = tempfile.mkstemp(prefix="headroom-", suffix=".part", dir=file.parent)
        os.close(number)
    except OSError as error:
        raise _unwritable(file, error) from None
    try:
        # Owners and privileges are left out: `migrate` grants them, whatever the roles.
        _run("pg_dump", "--format=custom", "--no-owner", "--no-acl", f"--file={draft}", f"--dbname={_target()[0]}")
        os.rename(draft, file)
        return file.stat().st_size
    except OSError as error:
        raise _unwritable(file, error) from None
    finally:
        Path(draft).unlink(missing_ok=True)


def backup_read(file: Path) -> None:
    """Restores into an empty database, wholly or not at all. Afterwards run `migrate`."""
    if not file.is_file():
        raise BackupError(f"{file} is not a file; name the one that `backup` wrote")
    if _has_tables():
        name = connection.settings_dict["NAME"]
        raise BackupError(
            f"the database {name} is not empty; create a new one and name it in DATABASE_URL, "
            "or with the embedded servers set HEADROOM_HOME to a new folder"
        )
    check_release(file)
    target, _ = _target()
    _run("pg_restore", "--no-owner", "--no-acl", "--single-transaction", "--exit-on-error", f"--dbname={target}", file)


def check_release(file: Path) -> None:
    """Raises BackupError if the backup is of a newer release, which the code of this one cannot read."""
    text = _run("pg_restore", "--data-only", "--table=django_migrations", "--file=-", file)
    rows = [line.split("\t") for line in text.splitlines() if line.count("\t") == MIGRATION_TABS]
    known = MigrationLoader(None).disk_migrations or {}
    newer = sorted(f"{app}.{name}" for _, app, name, _ in rows if (app, name) not in known)
    if newer:
        raise BackupError(f"the backup is of a newer release (it has {newer[-1]}); install that release or a later one")


def check_keys() -> None:
    """Raises WrongKeyError if SECRET_KEY is not the one of the backup."""
    read_keys(API_KEYS)


def _unwritable(file: Path, error: OSError) -> BackupError:
    return BackupError(f"{file} cannot be written ({error.strerror}); choose another place")


def _has_tables() -> bool:
    with as_owner(connection.alias) as owner, owner.cursor() as cursor:
        return bool(owner.introspection.table_names(cursor))


def _target() -> tuple[str, Mapping[str, str]]:
    """The owner's connection, and the password apart from it: arguments are visible to everyone on the machine."""
    parts: dict[str, Any] = conninfo_to_dict(settings.MIGRATION_DATABASE_URL)
    parts["dbname"] = connection.settings_dict["NAME"]
    password = parts.pop("password", None)
    return make_conninfo(**parts), {"PGPASSWORD": password} if password else {}


def _run(program: str, *arguments: str | Path) -> str:
    command = [_found(program), *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, **_target()[1]}, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        why = said[0].removeprefix(f"{program}: ").removeprefix("error: ")
        raise BackupError(f"{program} failed: {why}; {REMEDIES[program]}")
    return done.stdout


def _found(program: str) -> str:
    inside = settings.HEADROOM_POSTGRES_PROGRAMS
    if inside is not None and (inside / program).exists():
        return str(inside / program)
    outside = shutil.which(program)
    if outside is None:
        raise BackupError(f"{program} is missing; install PostgreSQL's client programs, or run it beside PostgreSQL")
    return outside
