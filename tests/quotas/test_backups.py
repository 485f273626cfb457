"""The drill: both servers are lost, and new ones are filled from a backup."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from config.data_folders import ROOT, Places
from config.embedded import sole_owner, start_postgres
from headroom_edge import Limiter, keys
from quotas.api_keys import api_key_issue
from quotas.backups import BackupError, check_release
from quotas.policies.edit import policy_create
from quotas.publishing import store
from quotas.publishing.publisher import Publisher
from quotas.usage.drain import drain
from quotas.usage.fold import fold_all
from tenants.privileges import as_owner
from tests.quotas.world import FORCED, PAY, SAID, make_world
from tests.valkeys import SpareValkey

MONTHLY = {"name": "monthly", "algorithm": "calendar_quota", "limit": 1_000, "period": "month", "unit": "cost"}
USAGE = "SELECT outcome, sum(count), sum(cost) FROM quotas_usage_1m GROUP BY outcome ORDER BY outcome"


@pytest.fixture
def new_home() -> Iterator[Places]:
    """The folder of an installation that has nothing yet; its path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="hr-") as folder:
        yield Places(Path(folder))


@contextmanager
def postgres_in(home: Places) -> Iterator[None]:
    server = start_postgres(home, durable=False)
    try:
        yield
    finally:
        server.stop()


def manage(
    home: Places, redis_url: str, *arguments: str, secret: str | None = None
) -> subprocess.CompletedProcess[str]:
    own = {"HEADROOM_HOME": str(home.home), "SECRET_KEY": secret or settings.SECRET_KEY, "REDIS_URL": redis_url}
    left_out = {"DATABASE_URL", "MIGRATION_DATABASE_URL"}
    others = {name: value for name, value in os.environ.items() if name not in left_out}
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=ROOT, env=others | own, capture_output=True, text=True, check=False)


def published(client: redis.Redis) -> dict[str, Any]:
    """Everything that enforcers read: plans, limits, API keys, routes."""
    shards = range(settings.HEADROOM_SHARDS)
    tables = (keys.config, keys.tenants, keys.registered, keys.credentials)
    found: dict[str, Any] = {table(shard): client.hgetall(table(shard)) for shard in shards for table in tables}
    return found | {keys.directory(): client.hgetall(keys.directory())}


def spend(url: str, cost: int) -> int:
    with Limiter.from_url(url, budget_ms=60_000) as limiter:
        decision = limiter.check(tenant="acme", endpoint=PAY, cost=cost, rows=True)
        assert (decision.allowed, decision.degraded) == (True, False)
        return next(row.remaining for row in decision.rows if row.name == "monthly")


def usage_in(database: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in database.execute(USAGE).fetchall()]


@pytest.mark.django_db(transaction=True)
def test_limits_quotas_keys_and_usage_are_back_up_to_the_backup(
    valkey: redis.Redis, valkey_url: str, spare_valkey: Callable[..., SpareValkey], tmp_path: Path, new_home: Places
) -> None:
    make_world()
    policy_create(name="quota", tenant="acme", limits=[MONTHLY], **FORCED)
    api_key_issue(tenant="acme", **SAID)
    client = store.connect(valkey_url)
    store.prepare(client)
    Publisher(client, settings.HEADROOM_SHARDS).publish()
    assert spend(valkey_url, 700) == 300
    drain(valkey)
    fold_all()
    file = tmp_path / "headroom.dump"
    call_command("backup", file)
    with connection.cursor() as cursor:
        cursor.execute(USAGE)
        usage = [tuple(row) for row in cursor.fetchall()]
    assert sum(row[2] for row in usage) == 700
    before = published(valkey)
    # After the backup: lost with the servers, which nobody asks again.
    assert spend(valkey_url, 50) == 250
    drain(valkey)
    fold_all()

    fresh = spare_valkey()
    with sole_owner(new_home):
        refused = manage(new_home, fresh.url, "restore", str(file))
    assert (refused.returncode, "stop it first" in refused.stderr) == (1, True)
    restored = manage(new_home, fresh.url, "restore", str(file))
    assert "is restored" in restored.stdout, restored.stderr
    with postgres_in(new_home):
        assert manage(new_home, fresh.url, "publish").returncode == 0
        with psycopg.connect(new_home.migration_database_url) as database:
            assert usage_in(database) == usage
    with fresh.client() as other:
        assert published(other) == before
    assert spend(fresh.url, 1) == 299


@pytest.mark.django_db(transaction=True)
def test_a_restore_with_another_secret_key_is_done_and_says_which_key_to_set(
    valkey_url: str, tmp_path: Path, new_home: Places
) -> None:
    make_world()
    api_key_issue(tenant="acme", **SAID)
    file = tmp_path / "headroom.dump"
    call_command("backup", file)
    restored = manage(new_home, valkey_url, "restore", str(file), secret="of-another-day-" * 5)
    said = f"{file} is restored, but SECRET_KEY is not the backup's; set the one of that day, then start."
    assert (restored.returncode, said in restored.stderr) == (1, True), restored.stderr
    with postgres_in(new_home):
        listed = manage(new_home, valkey_url, "revisions")
        assert (listed.returncode, "tenant_create" in listed.stdout) == (0, True), listed


@pytest.mark.django_db(transaction=True)
def test_a_backup_never_overwrites_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    taken, missing = tmp_path / "taken", tmp_path / "no" / "folder"
    taken.write_text("x")
    with pytest.raises(CommandError, match="exists; name a new file"):
        call_command("backup", taken)
    with pytest.raises(CommandError, match="cannot be written"):
        call_command("backup", missing)
    with pytest.raises(CommandError, match="is not a file"):
        call_command("restore", missing)
    with pytest.raises(CommandError, match="is not empty; create a new one"):
        call_command("restore", taken)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.django_db(transaction=True)
def test_a_backup_follows_no_link_and_fits_no_older_release(tmp_path: Path) -> None:
    precious, file, dangling = tmp_path / "precious", tmp_path / "a.dump", tmp_path / "dangling"
    precious.write_text("x")
    (tmp_path / "a.dump.part").symlink_to(precious)
    dangling.symlink_to(tmp_path / "nowhere")
    with as_owner(connection.alias) as owner:
        migrations = MigrationRecorder(owner)
        migrations.record_applied("quotas", "9999_of_a_newer_release")
        try:
            call_command("backup", file)
        finally:
            migrations.record_unapplied("quotas", "9999_of_a_newer_release")
    assert (precious.read_text(), file.is_symlink(), file.stat().st_mode & 0o777) == ("x", False, 0o600)
    with pytest.raises(BackupError, match=r"of a newer release .it has quotas.9999_of_a_newer_release.; install that"):
        check_release(file)
    with pytest.raises(BackupError, match="nothing was restored, so name a whole file"):
        check_release(precious)
    with pytest.raises(CommandError, match="exists; name a new file"):
        call_command("backup", dangling)
    with pytest.raises(CommandError, match=r"cannot be written .File name too long"):
        call_command("backup", tmp_path / ("n" * 300))
    assert len(list(tmp_path.iterdir())) == 4
