"""One publisher is active; another takes over when it dies."""

from __future__ import annotations

import redis
from django.db import connection

from quotas.locks import Lock
from quotas.models import Heartbeat
from tests.quotas.publishing.conftest import Run
from tests.quotas.publishing.worlds import differences, quota, tier_edit, wait_until


def holders() -> list[int]:
    """The backends that hold the lock of the active publisher."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND granted", [Lock.PUBLISHER.value]
        )
        return [pid for (pid,) in cursor.fetchall()]


def test_standby_takes_over_from_a_killed_publisher(client: redis.Redis, world: None, run: Run) -> None:
    first = run("serve")
    wait_until(lambda: quota(client, "acme") == 10, "first publish")
    (active,) = holders()
    run("serve")
    first.kill()
    tier_edit(11)
    wait_until(lambda: quota(client, "acme") == 11, "a publish by the one that stood by")
    assert len(holders()) == 1
    assert holders() != [active]
    assert differences(client) == []


def test_publisher_survives_the_loss_of_its_connection(client: redis.Redis, world: None, run: Run) -> None:
    process = run("serve")
    wait_until(lambda: quota(client, "acme") == 10, "first publish")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
    tier_edit(11)
    wait_until(lambda: quota(client, "acme") == 11, "a publish over a new connection")
    assert process.poll() is None


def test_publisher_says_which_revision_it_has_published(client: redis.Redis, world: None, run: Run) -> None:
    run("serve")
    tier_edit(11)
    wait_until(lambda: quota(client, "acme") == 11, "the edit")
    wait_until(lambda: Heartbeat.objects.filter(name="publisher", detail="9").exists(), "its heartbeat")
