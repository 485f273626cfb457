"""The transaction of a dry run: one snapshot, rolled back at the end, without the lock that orders revisions.

A small edit is rehearsed by writing its rows, so for a moment it may hold or meet a row lock. It gives up long before
Postgres would look for a deadlock, so that no writer is ever ended for it, and is tried again on a newer snapshot.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Final, TypeVar

from django.db import IntegrityError, OperationalError, connection, transaction

from quotas.caller import CallerGoneError, stops_with_caller
from quotas.changes.turn import Busy, without_turns

logger = logging.getLogger(__name__)
T = TypeVar("T")

TRIES: Final = 3
# Shorter than Postgres' deadlock_timeout of one second.
_BEGIN: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET LOCAL lock_timeout = '300ms'"
_CONFLICTS: Final = ("40", "55P03")  # classes and codes of Postgres: a conflict of transactions, a lock not free


@contextmanager
def dry_run() -> Iterator[None]:
    """Inside another transaction it is a savepoint. A service that takes its turn takes none in here."""
    is_outermost = not connection.in_atomic_block
    with without_turns(), transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute(_BEGIN)
        with _stopped_with_caller() if is_outermost else nullcontext():
            yield
        transaction.set_rollback(True)


@contextmanager
def _stopped_with_caller() -> Iterator[None]:
    try:
        with stops_with_caller():
            yield
    except CallerGoneError:
        logger.info("A dry run was stopped: its caller has gone.")
        raise


def tried_again(rehearse: Callable[[], T]) -> T:
    """Runs it again while others change what it touches; refused as `Busy` if they always do."""
    if connection.in_atomic_block:
        return rehearse()
    for _ in range(TRIES):
        try:
            return rehearse()
        except (OperationalError, IntegrityError) as error:
            state = getattr(error.__cause__, "sqlstate", None) or ""
            if isinstance(error, OperationalError) and not state.startswith(_CONFLICTS):
                raise
    raise Busy
