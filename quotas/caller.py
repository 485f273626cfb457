"""Whether the one who asked still waits for the answer: long reads and dry runs stop when their caller has gone.

The web process sets the caller of each request (config.callers); elsewhere there is none, and nothing stops.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import psycopg
from django.db import OperationalError, connection
from psycopg.errors import QueryCanceled

CANCEL_S: Final = 5.0  # for Postgres to take the request to cancel


class CallerGoneError(Exception):
    """Nobody waits for the answer any more."""


class Caller:
    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._running: psycopg.Connection[Any] | None = None
        self.is_gone = False

    def leave(self) -> None:
        """Ends what runs for this caller: the statement in Postgres at once, the rest at its next step. May block."""
        with self._guard:
            self.is_gone = True
            if self._running is not None:
                self._running.cancel_safe(timeout=CANCEL_S)

    def begin(self, on: psycopg.Connection[Any] | None) -> None:
        """`on` is what `leave` cancels from now on; a connection that is given back must not be cancelled."""
        with self._guard:
            self._running = on


current: ContextVar[Caller | None] = ContextVar("caller", default=None)


def check_waiting() -> None:
    caller = current.get()
    if caller is not None and caller.is_gone:
        raise CallerGoneError


@contextmanager
def stops_with_caller() -> Iterator[None]:
    """Within it, statements and `check_waiting` raise CallerGoneError once the caller has gone."""
    caller = current.get()
    if caller is None:
        yield
        return
    check_waiting()
    connection.ensure_connection()
    caller.begin(connection.connection)
    try:
        with connection.execute_wrapper(_checked):
            yield
    except OperationalError as error:
        if caller.is_gone and isinstance(error.__cause__, QueryCanceled):
            raise CallerGoneError from error
        raise
    finally:
        caller.begin(None)


def _checked(execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
    check_waiting()
    return execute(sql, params, many, context)
