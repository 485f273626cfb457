"""Long tasks that one worker does as a whole: they can be cancelled, and end at most once, whatever happens.

A worker holds the task's advisory lock while it works, so that no other begins it; if it is killed, PostgreSQL frees
the lock, and another worker begins anew, at most MOST_TRIES times in all. What a task changes is written in one
transaction with its end (`Run.end`). So it is written wholly or not, and never twice.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded
from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction
from django.utils import timezone

from quotas.caller import Caller, CallerGoneError, current
from quotas.errors import refuse
from quotas.locks import Lock, let_go, take_lock, try_hold
from quotas.long_tasks import BROKE_OFF, EVERY_S, LONGEST, MOST_TRIES, OVER, task_file
from quotas.models import Task

log = logging.getLogger(__name__)

IDENTITY = "identity"  # in what was asked: whose task it is, as tenants.identity stores it
TRIES = "tries"
TEXT = "document"  # in what was asked: as long as the task is not over
FORGOTTEN = (Task.Kind.DOCUMENT, Task.Kind.SHARES)  # kinds whose results nobody needs for long
KEPT = timedelta(days=2)  # longer than a repetition with the same Idempotency-Key
LOOK_AGAIN_S, LOOKS = 0.2, 10  # while another worker has the task
MOST_OPEN = 3  # of one person or token
SET_ASIDE = f"set aside: it ended its worker {MOST_TRIES} times; send less at once"
TOO_LONG = "it took too long; send less at once"


class TaskOverError(Exception):
    """It was cancelled, or another worker has ended it: what was written for it must be rolled back."""


class TooManyOpenError(Exception):
    """Whoever asks has MOST_OPEN tasks that are not over."""


class Run:
    """A task as its worker sees it."""

    def __init__(self, number: int, asked: Mapping[str, Any]) -> None:
        self.number, self.asked = number, asked
        self._doing, self._percent = "", 0

    def step(self, doing: str, percent: int) -> None:
        """Says what is done now. Within a transaction, only the watch stores it."""
        self._doing, self._percent = doing, percent
        if not connection.in_atomic_block and not self.store():
            raise TaskOverError

    def store(self) -> bool:
        """False: the task is over."""
        fresh = {"doing": self._doing, "percent": self._percent, "changed": timezone.now()}
        return bool(Task.objects.filter(pk=self.number, state=Task.State.RUNNING).update(**fresh))

    def end(self, result: dict[str, Any], problem: str = "") -> None:
        """Within the transaction of what the task has written. With a problem, the task has failed."""
        if not _end(self.number, result, problem):
            raise TaskOverError


Work = Callable[[Run], None]  # ends the run


def whole_task_file(*, kind: Task.Kind, author: str, identity: str, asked: Mapping[str, Any]) -> Task:
    with transaction.atomic():
        take_lock(Lock.TASKS)  # so that those who ask at once are counted
        mine = Task.objects.filter(kind=kind, asked__identity=identity).exclude(state__in=OVER)
        if mine.count() >= MOST_OPEN:
            raise TooManyOpenError
        return task_file(kind=kind, author=author, asked={**asked, IDENTITY: identity})


def whole_task_cancel(*, number: int, reason: str) -> Task:
    """Waits while the worker's last transaction ends; refused if that was the end of the task."""
    if not _end(number, None, f"it was cancelled: {reason}"):
        raise refuse("task", "over", "the task is over, so it cannot be cancelled; read its result")
    return Task.objects.get(pk=number)


def whole_task_run(number: int, work: Work) -> None:
    """Does the task, unless it is over or another worker does it."""
    if not _held(number):
        return
    try:
        run = _begin(number)
        if run is not None:
            with _watched(run):
                _do(run, work)
    finally:
        let_go(Lock.WHOLE_TASK, number)


def _held(number: int) -> bool:
    """Waits a moment: PostgreSQL may not have noticed yet that the last worker was killed."""
    for _ in range(LOOKS):
        if try_hold(Lock.WHOLE_TASK, number):
            return True
        time.sleep(LOOK_AGAIN_S)
    return False


def old_tasks_delete(now: datetime) -> int:
    """Deletes what ended long ago, and returns how many."""
    return Task.objects.filter(kind__in=FORGOTTEN, state__in=OVER, changed__lt=now - KEPT).delete()[0]


def _begin(number: int) -> Run | None:
    with transaction.atomic():
        task = Task.objects.select_for_update().exclude(state__in=OVER).filter(pk=number).first()
        if task is None:
            return None
        tries = int(task.asked.get(TRIES, 0)) + 1
        if tries > MOST_TRIES:
            _end(number, None, SET_ASIDE)
            return None
        task.state, task.changed = Task.State.RUNNING, timezone.now()
        task.asked = {**task.asked, TRIES: tries}
        task.save(update_fields=["state", "asked", "changed"])
        return Run(number, task.asked)


def _do(run: Run, work: Work) -> None:
    try:
        work(run)
    except (TaskOverError, CallerGoneError):
        log.info("Task %s was stopped: it is over.", run.number)
    except (OperationalError, InterfaceError):
        raise  # the database went away; the task stays open, and beat sends it again
    except SoftTimeLimitExceeded:
        _end(run.number, None, TOO_LONG)
    except Exception:
        _end(run.number, None, BROKE_OFF)
        raise


def _end(number: int, result: dict[str, Any] | None, problem: str) -> bool:
    """Once: False if it is over. The document is not needed any more."""
    with transaction.atomic():
        task = Task.objects.select_for_update().exclude(state__in=OVER).filter(pk=number).first()
        if task is None:
            return False
        task.asked = {name: value for name, value in task.asked.items() if name != TEXT}
        task.state = Task.State.FAILED if problem else Task.State.DONE
        task.percent, task.doing = (task.percent, task.doing) if problem else (100, "")
        task.result, task.problem, task.changed = result, problem[:LONGEST], timezone.now()
        task.save()
        return True


@contextmanager
def _watched(run: Run) -> Iterator[None]:
    """Stores the progress, also while a transaction is open, and ends dry runs when the task is over."""
    caller, is_done = Caller(), threading.Event()
    token = current.set(caller)
    watch = threading.Thread(target=_watch, args=(run, caller, is_done), name=f"task {run.number}", daemon=True)
    watch.start()
    try:
        yield
    finally:
        current.reset(token)
        is_done.set()
        watch.join()


def _watch(run: Run, caller: Caller, is_done: threading.Event) -> None:
    try:
        while not is_done.wait(EVERY_S):
            try:
                if not run.store():
                    caller.leave()
                    return
            except DatabaseError as error:
                log.warning("The progress of task %s was not stored: %s", run.number, str(error).splitlines()[0])
    finally:
        connection.close()
