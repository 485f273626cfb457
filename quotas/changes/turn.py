"""Turns at writing the configuration: one change after another, in the order in which they came.

The writers of one process queue in memory and hold no database connection while they wait. Only the first of them
waits in PostgreSQL, for the writers of other processes. Whoever waits too long is refused with `Busy`.
A dry run waits for nobody: what it writes is rolled back, so it has no place in the order.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from django.db import OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable

from headroom_edge.algorithms.base import counted
from quotas.errors import Refused
from quotas.locks import Lock, take_lock
from quotas.policies.problems import Problem

WAIT_S: Final = 10.0
MOST_WAITING: Final = 100  # in one process; each holds a thread
RETRY_S: Final = 2


class Busy(Refused):
    """Nothing is wrong with the request; others were being carried out all the time."""

    def __init__(self, what: str = "another change is being written", retry_s: int = RETRY_S) -> None:
        again = counted(retry_s, "second", "seconds")
        super().__init__([Problem("", "busy", f"{what}; try again in {again}")])
        self.retry_s = retry_s


class FairLock:
    """A lock that is handed on in the order of arrival."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._is_taken = False

    def enter(self, wait_s: float) -> bool:
        with self._guard:
            if not self._is_taken:
                self._is_taken = True
                return True
            if wait_s <= 0 or len(self._waiting) >= MOST_WAITING:
                return False
            place = threading.Event()
            self._waiting.append(place)
        if place.wait(wait_s):
            return True
        with self._guard:
            if place.is_set():  # handed on at the last moment
                return True
            self._waiting.remove(place)
            return False

    def leave(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_taken = False


_queue = FairLock()
_is_needless: ContextVar[bool] = ContextVar("turn", default=False)  # it is a savepoint


@contextmanager
def turn(wait_s: float = WAIT_S) -> Iterator[None]:
    """A transaction in which nobody else writes, so revisions are committed in the order of their numbers.

    Inside a turn, and where `without_turns`, it is a savepoint.
    """
    if _is_needless.get():
        with transaction.atomic():
            yield
        return
    deadline = time.monotonic() + wait_s
    _enter(wait_s)
    try:
        with without_turns(), transaction.atomic():
            _take_lock(deadline - time.monotonic())
            yield
    finally:
        _queue.leave()


@contextmanager
def without_turns() -> Iterator[None]:
    """For who has the turn, and for who leaves nothing behind."""
    token = _is_needless.set(True)
    try:
        yield
    finally:
        _is_needless.reset(token)


def _enter(wait_s: float) -> None:
    if _queue.enter(0):
        return
    give_back()
    if not _queue.enter(wait_s):
        raise Busy


def give_back() -> None:
    """Returns the connection to the pool, if there is one and no transaction is open; the next query gets another."""
    if connection.settings_dict["OPTIONS"].get("pool") and not connection.in_atomic_block:
        connection.close()


def _take_lock(wait_s: float) -> None:
    try:
        take_lock(Lock.REVISIONS, wait_s=max(wait_s, 0.001))
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise Busy from error
        raise
