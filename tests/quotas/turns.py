"""Writers that keep others waiting for their turn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
from django.db import connection, connections

from quotas.changes import draft as drafts
from quotas.changes.turn import _queue, turn
from quotas.locks import Lock

T = TypeVar("T")


@contextmanager
def another_process() -> Iterator[None]:
    """Writes all the time: holds the lock, outside of this process's queue.

    For tests with `django_db(transaction=True)`: in another one's transaction, every turn lasts to the end of the test.
    """
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [Lock.REVISIONS.value])
        yield
    finally:
        other.close()


def at_once(*acts: Callable[[], T]) -> list[T]:
    """What each returned. All have done what they do before their turn when the first one gets it.

    For tests with `django_db(transaction=True)`.
    """

    def run(act: Callable[[], T]) -> T:
        try:
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as pool:
        with turn():
            running = []
            for place, act in enumerate(acts, 1):
                running.append(pool.submit(run, act))
                while len(_queue._waiting) < place and not running[-1].done():
                    threading.Event().wait(0.001)
            assert len(_queue._waiting) == len(acts), [one.result() for one in running if one.done()]
        return [one.result() for one in running]


@contextmanager
def full_queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whoever asks for a turn is refused. Yields for each of them: had it a transaction open, and so a connection?"""
    seen: list[bool] = []
    monkeypatch.setattr("quotas.changes.turn.MOST_WAITING", 0)
    monkeypatch.setattr("quotas.changes.turn.give_back", lambda: seen.append(connection.in_atomic_block))
    assert _queue.enter(0)
    try:
        yield seen
    finally:
        _queue.leave()


def judged_in_turn(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each judgement of a draft from now on: did it keep the writers of this process waiting?"""
    found: list[bool] = []
    check = drafts._proposal

    def noted(*asked: Any) -> Any:
        found.append(_queue._is_taken)
        return check(*asked)

    monkeypatch.setattr(drafts, "_proposal", noted)
    return found
