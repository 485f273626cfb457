"""Every advisory lock of the database: its key, what it orders, and who takes it.

Processes of two versions run side by side during an upgrade and know a lock by its key alone, so a key never changes.
Postgres hashes a key that is a text.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import psycopg
from django.db import connection

_UNBOUNDED: Final = "set_config('lock_timeout', '0', true)"


class Lock(Enum):
    # Revisions are numbered and committed one after another: everything that changes the configuration takes it.
    REVISIONS = 0x4865_6164
    # One publisher is active. It holds the lock as long as its connection lives; the others stand by.
    PUBLISHER = 0x4865_6165
    # One drain stores its batches at a time, so that rows are locked in one order and a gap is noticed once. Whoever
    # erases a subject takes it too, before the lock of calendar counters.
    DRAIN = "quotas.usage.drain"
    # One drain of calendar counters at a time.
    CALENDARS = "quotas.usage.calendars"
    # Each fold reads the usage log once, in order.
    FOLD_STEPS = "quotas.usage.fold.steps"
    FOLD_MINUTES = "quotas.usage.fold.minutes"
    FOLD_HOURS = "quotas.usage.fold.hours"
    FOLD_RATES = "quotas.usage.fold.rates"
    FOLD_LATENCY = "quotas.usage.fold.latency"
    # Packed seconds and the rates made from them: the fold adds to them, maintenance recomputes whole days.
    RATES = "quotas.usage.rates"
    # Rows of hours that are not over: whoever adds one shares the lock, whoever packs an hour holds it alone.
    FRESH_ROWS = "quotas.usage.fresh"
    # Each partition is created once.
    PARTITIONS = "quotas.usage.partitions"
    # One calibration at a time is open: whoever asks for one looks first.
    TASKS = "quotas.tasks"
    # One worker at a time does a slice of a long task; the second key is the slice's id.
    SLICE = "quotas.tasks.slice"
    # One worker at a time does a task that is not cut; the second key is the task's id.
    WHOLE_TASK = "quotas.tasks.whole"
    # One watch at a time decides which alerts fire and which are resolved.
    ALERTS = "quotas.alerts"
    # One guard at a time decides whether the watch is silent. Not the lock above, which a stuck watch may hold.
    WATCH_GUARD = "quotas.alerts.guard"
    # The rows of the summary of tenants: two jobs write them, each all rows at once.
    TENANT_SUMMARY = "quotas.tenant_summary"


def take_lock(lock: Lock, *, shared: bool = False, wait_s: float | None = None) -> None:
    """Waits for the lock and holds it to the end of the transaction.

    `wait_s`: for how long; then PostgreSQL raises LockNotAvailable.
    """
    function = "pg_advisory_xact_lock_shared" if shared else "pg_advisory_xact_lock"
    with connection.cursor() as cursor:
        if wait_s is None:
            cursor.execute(f"SELECT {function}({_key(lock)})", [lock.value])
        else:
            # Evaluated from left to right: the bound is for this lock alone.
            bounded = f"SELECT set_config('lock_timeout', %s, true), {function}({_key(lock)}), {_UNBOUNDED}"
            cursor.execute(bounded, [f"{round(wait_s * 1000)}ms", lock.value])


def take_lock_if_free(lock: Lock) -> bool:
    """Takes the lock to the end of the transaction, unless somebody else has it."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_try_advisory_xact_lock({_key(lock)})", [lock.value])
        return bool(cursor.fetchone()[0])


def try_lock(lock: Lock, postgres: psycopg.Connection[Any]) -> bool:
    """Takes the lock for as long as the connection lives, unless somebody else has it."""
    row = postgres.execute(f"SELECT pg_try_advisory_lock({_key(lock)})", [lock.value]).fetchone()
    return bool(row and row[0])


def try_hold(lock: Lock, number: int) -> bool:
    """Takes the lock of one of many things, unless another connection has it. Ends with `let_go` or the connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(hashtext(%s), %s::int)", [lock.value, number % 2**31])
        return bool(cursor.fetchone()[0])


def let_go(lock: Lock, number: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock(hashtext(%s), %s::int)", [lock.value, number % 2**31])


def _key(lock: Lock) -> str:
    return "%s" if isinstance(lock.value, int) else "hashtext(%s)"
