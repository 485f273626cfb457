"""F15: many writers at once, one of them slow. Redis ends as Postgres does; no revision is skipped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import redis
from django.db import connection

from quotas.changes.turn import turn
from quotas.models import Outbox, Revision
from quotas.models.revision import newest_revision_number
from quotas.policies.edit import policy_update
from quotas.tenants import tenant_create
from tests.quotas.publishing.conftest import Run
from tests.quotas.publishing.worlds import FORCED, SAID, burst, differences, quota, revisions, wait_until

WRITERS = 8


def test_racing_writers_and_one_that_holds_its_transaction_open(client: redis.Redis, world: None, run: Run) -> None:
    check_race(client, run, edits=4, held_seconds=0.3)


@pytest.mark.faults_long
def test_racing_writers_for_long(client: redis.Redis, world: None, run: Run) -> None:
    check_race(client, run, edits=500, held_seconds=3.0)


def check_race(client: redis.Redis, run: Run, *, edits: int, held_seconds: float) -> None:
    run("serve")
    wait_until(lambda: quota(client, "acme") == 10, "first publish")
    before = newest_revision_number()
    seen: list[int] = []
    with watching(client, seen), ThreadPoolExecutor(WRITERS + 1) as pool:
        slow = pool.submit(in_thread, lambda: hold_open(held_seconds))
        writers = [pool.submit(in_thread, lambda w=writer: write(w, edits)) for writer in range(WRITERS)]  # type: ignore[misc]
        for future in (slow, *writers):
            future.result()
    wait_until(lambda: not Outbox.objects.exists(), "an empty outbox")
    # Half of the edits are the tier's, so the last revision of all shards is known: that of the last such edit.
    assert newest_revision_number() - before == WRITERS * edits + 1
    assert differences(client) == []
    assert list(Revision.objects.order_by("number").values_list("number", flat=True)) == list(
        range(1, newest_revision_number() + 1)
    )
    assert not Revision.objects.filter(published_us=None).exists()
    assert seen == sorted(seen)


def write(writer: int, edits: int) -> None:
    """Even writers edit the tier, odd ones a tenant's own policy, so that edits of both kinds interleave."""
    policy = "pro" if writer % 2 == 0 else "carol"
    for number in range(edits):
        policy_update(name=policy, limits=burst(1_000 + 1_000 * writer + number), **FORCED)


def hold_open(seconds: float) -> None:
    """Writes, and commits late: the others' revisions must wait for this one's number."""
    with turn():
        tenant_create(name="slow", tier="pro", **SAID)
        threading.Event().wait(seconds)


def in_thread(work: Callable[[], None]) -> None:
    try:
        work()
    finally:
        connection.close()


@contextmanager
def watching(client: redis.Redis, seen: list[int]) -> Iterator[None]:
    """The revision of carol's shard, time and again: it never goes down."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.005):
            seen.append(sum(revisions(client)))

    thread = threading.Thread(target=watch)
    thread.start()
    yield
    stop.set()
    thread.join()
