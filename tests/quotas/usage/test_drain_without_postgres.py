"""F20: Postgres goes away and comes back; what was counted meanwhile is all there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
import redis
from django.db import connection
from psycopg.sql import SQL, Identifier

from config.data_folders import OWNER, ROOT, Places
from config.embedded import ServerProcess, start_postgres
from quotas.usage.drain import DrainError, drain_once
from tests.quotas.usage.counters import Hit, count, expected, in_postgres, in_redis


class Installation:
    """A Postgres of its own with the tables in it, and the management commands that use it."""

    def __init__(self, home: Path, redis_url: str) -> None:
        self.places = Places(home)
        self.server: ServerProcess = start_postgres(self.places)
        self.environment = {
            **os.environ,
            "DATABASE_URL": self.places.database_url,
            "MIGRATION_DATABASE_URL": self.places.migration_database_url,
            "REDIS_URL": redis_url,
            "SECRET_KEY": "only-for-this-test-" * 4,
        }

    def manage(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", *words]
        return subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=300)

    def kill(self) -> None:
        self.server.process.kill()
        self.server.process.wait()

    def start(self) -> None:
        self.server = start_postgres(self.places)

    def total(self) -> int:
        with psycopg.connect(self.places.migration_database_url) as database:
            row = database.execute("SELECT coalesce(sum(count), 0)::int FROM quotas_usage_1m").fetchone()
        assert row is not None
        return int(row[0])


@pytest.fixture
def installation(valkey_url: str) -> Iterator[Installation]:
    # A short path: a socket's may not be longer than 103 bytes.
    with TemporaryDirectory(prefix="hr-") as home:
        installation = Installation(Path(home), valkey_url)
        assert installation.manage("migrate", "-v0").returncode == 0
        yield installation
        installation.server.stop()


@contextmanager
def closed_database() -> Iterator[None]:
    """Every connection ends, and no new one is let in."""
    facts = connection.get_connection_params()
    name = Identifier(facts["dbname"])
    connection.close()
    with psycopg.connect(host=facts["host"], user=OWNER, dbname="postgres", autocommit=True) as outside:
        outside.execute(SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
        try:
            yield
        finally:
            outside.execute(SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))


@pytest.mark.django_db(transaction=True)
def test_counts_wait_in_redis_until_postgres_is_back(valkey: redis.Redis) -> None:
    hits = [Hit(1)] * 10
    count(valkey, hits)
    with closed_database():
        for _ in range(3):
            with pytest.raises(DrainError, match=r"^Postgres did not store the counts, so they stay in Redis: .+"):
                drain_once()
            count(valkey, [Hit(1), Hit(2)])
            hits += [Hit(1), Hit(2)]
    drain_once()
    drain_once()
    assert in_postgres() == expected(hits)
    assert not in_redis(valkey)


@pytest.mark.faults_long
def test_a_killed_postgres_comes_back_with_every_count(installation: Installation, valkey: redis.Redis) -> None:
    count(valkey, [Hit(1)] * 10)
    for _ in range(5):
        installation.kill()
        failed = installation.manage("drain")
        count(valkey, [Hit(1), Hit(2)])
        assert failed.returncode == 1
        assert failed.stderr.startswith("CommandError: Postgres did not store the counts, so they stay in Redis: ")
        assert len(failed.stderr.splitlines()) == 1
        installation.start()
        assert installation.manage("drain").returncode == 0
    assert " into " in installation.manage("drain").stdout
    assert installation.total() == 20
