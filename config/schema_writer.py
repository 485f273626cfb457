"""Writes tenants/schema.sql from the migrations, on a PostgreSQL of its own: `python -m config.schema_writer`."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import django

from config.data_folders import Places
from config.embedded import postgres_program, start_postgres


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="hr-") as folder:
        home = Places(Path(folder))
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "HEADROOM_HOME": folder,
            "SECRET_KEY": home.secret(),
            "DATABASE_URL": home.database_url,
            "MIGRATION_DATABASE_URL": home.migration_database_url,
        }
        server = start_postgres(home, durable=False)
        try:
            _write(home)
        finally:
            server.stop()


def _write(home: Places) -> None:
    django.setup()
    # They need the settings.
    from django.core.management import call_command
    from django.db import connection

    from tenants.schema_file import FILE, schema_text

    call_command("migrate", interactive=False, verbosity=0, every_migration=True)
    FILE.write_text(schema_text(dump_of(home.migration_database_url), connection), encoding="utf-8")


def dump_of(url: str, *options: str) -> str:
    """The schema as SQL. Privileges are left out: `migrate` grants them."""
    command = [str(postgres_program("pg_dump")), "--schema-only", *(options or ("--no-owner", "--no-privileges")), url]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
