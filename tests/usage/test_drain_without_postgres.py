"""F20: Postgres goes away and comes back; what was counted meanwhile is all there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
import redis

from config.embedded import Server, start_postgres
from config.places import ROOT, Places
from tests.usage.counters import Hit, count


class Installation:
    """A Postgres of its own with the tables in it, and the management commands that use it."""

    def __init__(self, home: Path, redis_url: str) -> None:
        self.places = Places(home)
        self.server: Server = start_postgres(self.places)
        self.environment = {
            **os.environ,
            "DATABASE_URL": self.places.database_url,
            "REDIS_URL": redis_url,
            "SECRET_KEY": "only-for-this-test-" * 4,
        }

    def manage(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", *words]
        return subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=60)

    def kill(self) -> None:
        self.server.process.kill()
        self.server.process.wait()

    def start(self) -> None:
        self.server = start_postgres(self.places)

    def total(self) -> int:
        with psycopg.connect(self.places.database_url) as database:
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


def test_counts_wait_in_redis_until_postgres_is_back(installation: Installation, valkey: redis.Redis) -> None:
    count(valkey, [Hit(1)] * 10)
    installation.kill()
    for _ in range(2):
        failed = installation.manage("drain")
        count(valkey, [Hit(1), Hit(2)])
        assert failed.returncode == 1
        assert failed.stderr.startswith("CommandError: Postgres did not take the counts, so they stay in Redis: ")
        assert len(failed.stderr.splitlines()) == 1
    installation.start()
    outputs = [installation.manage("drain").stdout for _ in range(2)]
    assert installation.total() == 14
    assert "2 batches, 2 counters into 2 cells" in outputs[0]
