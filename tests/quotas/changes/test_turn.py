"""Turns at writing: fair, bounded in time, and without a connection for those who wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from django.db import connection

from quotas.changes.commit import Proposed, commit
from quotas.changes.dry_run import dry_run
from quotas.changes.promotion import change_promote
from quotas.changes.rollout import change_propose, change_start, changes_apply_due
from quotas.changes.turn import Busy, _queue, turn
from quotas.models import Change, Revision
from quotas.models.change import ChangeState
from quotas.policies.edit import limit_set
from tests.quotas.turns import another_process
from tests.quotas.world import FORCED, SAID, bucket, make_world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def world() -> None:
    make_world()


def in_thread(work: Callable[[], object]) -> object:
    try:
        return work()
    finally:
        connection.close()


def test_whoever_waits_too_long_for_another_process_is_told_the_truth() -> None:
    before = Revision.objects.count()
    told = "another change is being written; try again in 2 seconds"
    with another_process(), pytest.raises(Busy, match=told), turn(wait_s=0.05):
        pytest.fail("it is not our turn")
    assert Revision.objects.count() == before
    assert isinstance(limit_set(policy="pro-all", limit=bucket(70), **FORCED), Revision)


def test_the_time_to_wait_bounds_this_lock_and_no_later_one() -> None:
    with turn(wait_s=5), connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",)


def test_turns_are_given_in_the_order_of_arrival() -> None:
    done: list[int] = []
    with ThreadPoolExecutor(6) as pool, turn():
        for number in range(6):
            pool.submit(in_thread, lambda number=number: _write(number, done))  # type: ignore[misc]
            while len(_queue._waiting) <= number:
                threading.Event().wait(0.001)
    assert done == list(range(6))


def _write(number: int, done: list[int]) -> None:
    with turn(wait_s=300):
        done.append(number)


def test_those_who_wait_in_a_process_have_no_transaction_open() -> None:
    with ThreadPoolExecutor(4) as pool:
        with turn():
            waiting = [pool.submit(in_thread, lambda: commit(lambda: None)) for _ in range(4)]
            while len(_queue._waiting) < 4:
                threading.Event().wait(0.001)
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
                assert cursor.fetchone() == (0,)
        for one in waiting:
            one.result()


def test_a_turn_inside_a_turn_is_the_same_turn() -> None:
    with turn(), turn(wait_s=0):
        assert _queue._is_taken
    assert not _queue._is_taken


STEPS: dict[str, Callable[..., object]] = {
    "promote": change_promote,
    "shadow": partial(change_start, mode="shadow"),
    "canary": partial(change_start, mode="canary", share_percent=10),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_dry_run_of_a_step_of_a_change_waits_for_no_turn(step: str) -> None:
    change = change_propose(limit_set, policy="pro-all", limit=bucket(120), **SAID)
    edit = partial(STEPS[step], change=change.pk, **FORCED)
    with another_process():
        outcome = commit(edit, "dry_run")
    assert isinstance(outcome, Proposed)
    change.refresh_from_db()
    assert change.state == ChangeState.PENDING


def test_a_dry_run_of_a_schedule_waits_for_no_turn_and_schedules_nothing() -> None:
    change = change_propose(limit_set, policy="pro-all", limit=bucket(120), **SAID)
    later: Any = {"mode": "scheduled", "at": datetime(2199, 1, 1, tzinfo=UTC)}
    with another_process():
        commit(partial(change_start, change=change.pk, **later, **FORCED), "dry_run")
    change.refresh_from_db()
    assert (change.state, change.at) == (ChangeState.PENDING, None)


def test_a_turn_in_a_dry_run_leaves_the_queue_and_the_time_to_wait_for_rows_alone() -> None:
    assert _queue.enter(0)
    try:
        with dry_run(), turn(wait_s=0), connection.cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            assert cursor.fetchone() == ("300ms",)
    finally:
        _queue.leave()


def test_a_change_that_is_due_while_another_is_written_stays_due(monkeypatch: pytest.MonkeyPatch) -> None:
    change = change_propose(limit_set, policy="pro-all", limit=bucket(120), **SAID)
    Change.objects.filter(pk=change.pk).update(state=ChangeState.SCHEDULED, at="2020-01-01T00:00Z", starter="ann")
    monkeypatch.setattr("quotas.changes.turn.MOST_WAITING", 0)  # a full queue refuses as one that took too long does
    assert _queue.enter(0)
    try:
        assert changes_apply_due() == 1
    finally:
        _queue.leave()
    change.refresh_from_db()
    assert (change.state, change.problem) == (ChangeState.SCHEDULED, "")
    assert changes_apply_due() == 1
    change.refresh_from_db()
    assert change.state == ChangeState.PROMOTED
