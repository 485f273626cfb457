"""The keys of advisory locks are known to processes of other versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.db import connection, connections, transaction

from quotas.locks import Lock, take_lock, try_lock
from quotas.usage.fold import FOLDS

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def other_process() -> Iterator[psycopg.Connection]:
    other = connections.create_connection("default")
    other.ensure_connection()
    try:
        yield other.connection
    finally:
        other.close()


def is_free(postgres: psycopg.Connection, key: str) -> bool:
    return postgres.execute(f"SELECT pg_try_advisory_xact_lock({key})").fetchone() == (True,)


@pytest.mark.parametrize(
    ("lock", "key"),
    [
        (Lock.REVISIONS, "1214603620"),
        (Lock.PUBLISHER, "1214603621"),
        (Lock.DRAIN, "hashtext('quotas.usage.drain')"),
        (Lock.CALENDARS, "hashtext('quotas.usage.calendars')"),
        (Lock.FOLD_STEPS, "hashtext('quotas.usage.fold.steps')"),
        (Lock.FOLD_MINUTES, "hashtext('quotas.usage.fold.minutes')"),
        (Lock.FOLD_HOURS, "hashtext('quotas.usage.fold.hours')"),
        (Lock.FOLD_RATES, "hashtext('quotas.usage.fold.rates')"),
        (Lock.FOLD_LATENCY, "hashtext('quotas.usage.fold.latency')"),
        (Lock.RATES, "hashtext('quotas.usage.rates')"),
        (Lock.FRESH_ROWS, "hashtext('quotas.usage.fresh')"),
        (Lock.PARTITIONS, "hashtext('quotas.usage.partitions')"),
        (Lock.ALERTS, "hashtext('quotas.alerts')"),
        (Lock.WATCH_GUARD, "hashtext('quotas.alerts.guard')"),
    ],
)
def test_a_lock_keeps_its_key_and_is_held_to_the_end_of_the_transaction(lock: Lock, key: str) -> None:
    with other_process() as other:
        with transaction.atomic():
            take_lock(lock)
            assert not is_free(other, key)
        assert is_free(other, key)


def test_no_two_locks_have_the_same_key() -> None:
    with connection.cursor() as cursor:
        texts = [lock.value for lock in Lock if isinstance(lock.value, str)]
        cursor.execute("SELECT hashtext(name) FROM unnest(%s::text[]) AS name", [texts])
        hashes = {key for (key,) in cursor}
    assert len(hashes | {lock.value for lock in Lock if isinstance(lock.value, int)}) == len(Lock)


def test_a_shared_lock_keeps_out_only_who_wants_it_alone() -> None:
    shared = "SELECT pg_try_advisory_xact_lock_shared(hashtext('quotas.usage.fresh'))"
    with other_process() as other, transaction.atomic():
        take_lock(Lock.FRESH_ROWS, shared=True)
        assert not is_free(other, "hashtext('quotas.usage.fresh')")
        assert other.execute(shared).fetchone() == (True,)


def test_a_lock_of_a_connection_goes_with_the_connection() -> None:
    with other_process() as second:
        with other_process() as first:
            assert try_lock(Lock.PUBLISHER, first)
            assert not try_lock(Lock.PUBLISHER, second)
        # The server notices the end of a connection a little later, so wait for the lock.
        second.execute("SET statement_timeout = '60s'")
        second.execute("SELECT pg_advisory_lock(1214603621)")


def test_every_fold_has_a_lock() -> None:
    assert {fold.lock for fold in FOLDS.values()} < set(Lock)
