"""Work for a caller who has gone: the statement in Postgres is cancelled, and the next step is not taken."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest
from django.db import connection

from quotas.caller import Caller, CallerGoneError, check_waiting, current, stops_with_caller
from quotas.changes.dry_run import dry_run

pytestmark = pytest.mark.django_db(transaction=True)

SLEEP = "SELECT pg_sleep(600)"


@pytest.fixture
def caller() -> Iterator[Caller]:
    one = Caller()
    token = current.set(one)
    yield one
    current.reset(token)


def sleeping() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE query = %s AND state = 'active'", [SLEEP])
        return int(cursor.fetchone()[0])


def run_dry() -> None:
    try:
        with dry_run(), connection.cursor() as cursor:
            cursor.execute(SLEEP)
    finally:
        connection.close()


def test_a_statement_ends_when_its_caller_leaves(caller: Caller) -> None:
    with ThreadPoolExecutor(1) as pool:
        dry = pool.submit(copy_context().run, run_dry)
        while not sleeping():
            assert not dry.done(), dry.exception()
            threading.Event().wait(0.01)
        caller.leave()
        assert isinstance(dry.exception(300), CallerGoneError)
    assert not sleeping()


def test_the_next_statement_and_the_next_step_are_not_taken(caller: Caller) -> None:
    with dry_run():
        caller.leave()
        with pytest.raises(CallerGoneError):
            check_waiting()
        with pytest.raises(CallerGoneError), connection.cursor() as cursor:
            cursor.execute("SELECT 1")


def test_a_connection_that_is_given_back_is_not_cancelled(caller: Caller) -> None:
    with stops_with_caller():
        pass
    assert caller._running is None
    caller.leave()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def test_without_a_caller_nothing_stops() -> None:
    check_waiting()
    with dry_run(), connection.cursor() as cursor:
        cursor.execute("SELECT 1")
