"""`migrate` on an empty database loads a file instead of running every migration, and nobody can tell which it was."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Protocol

import psycopg
import pytest
from django.db import connection
from django.db.utils import ConnectionHandler
from psycopg.sql import SQL, Identifier

from config.data_folders import APPLICATION, OWNER, ROOT, Places
from config.embedded import ServerProcess
from config.schema_writer import dump_of
from tenants.schema_file import FILE, digests_of, loaded_migrations, migrations_in, schema_load

# What every database has of its own: when it was made, and the numbers of what was made at once.
_ROWS = (
    "SELECT app, name FROM django_migrations ORDER BY 1, 2",
    "SELECT app_label, model FROM django_content_type ORDER BY 1, 2",
    """SELECT app_label, model, codename, p.name FROM auth_permission p
        JOIN django_content_type c ON c.id = content_type_id ORDER BY 1, 2, 3""",
)


class Url(Protocol):
    def __call__(self, name: str, role: str = OWNER) -> str: ...


@pytest.fixture
def empty_database(home: Places, postgres_server: ServerProcess) -> Iterator[Url]:
    """Returns the address of the database of that name. The first call makes it."""
    names: set[str] = set()
    with psycopg.connect(_at(home, "postgres"), autocommit=True) as server:

        def address(name: str, role: str = OWNER) -> str:
            if name not in names:
                names.add(name)
                server.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
            return _at(home, name, role)

        yield address
        for name in names:
            server.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def _at(home: Places, database: str, role: str = OWNER) -> str:
    url = home.migration_database_url if role == OWNER else home.database_url
    return url.replace("/headroom?", f"/{database}?")


def migrated(url: Url, place: str, *options: str) -> list[list[Any]]:
    """Returns what migrations write into its tables."""
    addresses = {"DATABASE_URL": url(place, APPLICATION), "MIGRATION_DATABASE_URL": url(place), "SECRET_KEY": "s" * 50}
    command = [sys.executable, "manage.py", "migrate", "--verbosity", "0", "--skip-checks", *options]
    subprocess.run(command, cwd=ROOT, env=os.environ | addresses, check=True)
    with psycopg.connect(url(place)) as server:
        return [server.execute(query).fetchall() for query in _ROWS]


def dumped(url: str) -> list[str]:
    return [line for line in dump_of(url, "--restrict-key=x").splitlines() if not line.startswith(("--", "\\"))]


def dumped_twice(url: Url, place: str) -> list[str]:
    """PostgreSQL words some checks in another way once they have gone through a dump."""
    with psycopg.connect(url(f"{place}_and_dumped")) as server:
        server.execute("\n".join(dumped(url(place))))
    return dumped(url(f"{place}_and_dumped"))


def test_the_file_makes_a_database_that_no_migration_is_missing_in(empty_database: Url) -> None:
    """The sweep below compares all of it with what the migrations make one by one."""
    (loaded, *_) = migrated(empty_database, "loaded")
    assert {(app, name) for app, name in loaded} == {(app, name) for app, name in loaded_migrations()}
    assert len(dumped(empty_database("loaded"))) > 2_000


@pytest.mark.sweep
def test_the_file_and_the_migrations_make_the_same_database(empty_database: Url) -> None:
    loaded_rows = migrated(empty_database, "loaded")
    run_rows = migrated(empty_database, "run", "--every-migration")
    loaded, run = (Counter(dumped_twice(empty_database, name)) for name in ("loaded", "run"))
    assert (loaded - run, run - loaded) == ({}, {})
    assert loaded_rows == run_rows
    assert loaded.total() > 2_000


def test_the_file_is_as_its_migrations_are_now() -> None:
    """If this fails, a migration that main has was edited: `make schema` writes the file again."""
    contained, present = migrations_in(FILE.read_text()), loaded_migrations()
    assert digests_of({name: present[name] for name in contained if name in present}) == contained


@pytest.mark.django_db
def test_a_database_with_tables_is_left_to_the_migrations() -> None:
    assert schema_load(connection) is False


@pytest.mark.parametrize(
    ("part", "instead"), [("-- PostgreSQL 18", "-- PostgreSQL 17"), (" 845cff319606332f", " 0000000000000000")]
)
@pytest.mark.django_db
def test_a_file_that_does_not_fit_is_not_loaded(empty_database: Url, part: str, instead: str) -> None:
    empty_database("other")
    facts = connection.settings_dict | {"NAME": "other", "USER": OWNER}
    other = ConnectionHandler({"default": facts})["default"]
    text = FILE.read_text()
    assert part in text
    try:
        assert schema_load(other, text.replace(part, instead)) is False
        assert other.introspection.table_names() == []
    finally:
        other.close()
