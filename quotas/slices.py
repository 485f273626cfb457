"""Long tasks in slices: cut once, done by all workers side by side, and joined by whoever ends the last slice.

A slice that is done is not done again. A slice whose worker died is free at once and is taken again, at most
MOST_TRIES times in all. A slice that fails is shown with its reason and does not end the others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from celery.exceptions import SoftTimeLimitExceeded
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Avg, Case, F, When
from django.db.models.functions import Greatest
from django.utils import timezone

from quotas.errors import Refused
from quotas.locks import Lock, let_go, try_hold
from quotas.long_tasks import BROKE_OFF, EVERY_S, LONGEST, MOST_TRIES, OVER, Progress
from quotas.models import Task, TaskSlice

log = logging.getLogger(__name__)

MOST_SLICES = 64
LOOK_AGAIN_S = 0.2  # while other workers have the last slices

Asked = Mapping[str, Any]
Result = dict[str, Any]
Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True)
class Cut:
    facts: Asked  # what all slices share; added to what the task was asked
    slices: Sequence[Asked]  # `what` in each says in a few words what it is about


@dataclass(frozen=True, slots=True)
class SlicedWork:
    """A kind of long task. The result must not depend on how it was cut."""

    cut: Callable[[Asked], Cut]
    do: Callable[[Asked, Asked, Progress], Result]  # what the task and what the slice was asked
    join: Callable[[Asked, list[Result]], Result]  # results of the slices that were done, in their order
    show: Callable[[int], None] = lambda number: None  # stores the results so far, if people want to see them


def shared_out(things: Sequence[Thing], least: int = 1) -> list[Sequence[Thing]]:
    """At most MOST_SLICES parts with at least so many things each, dealt like cards: neighbours cost alike."""
    parts = min(MOST_SLICES, max(1, len(things) // least)) if things else 0
    return [things[first::parts] for first in range(parts)]


def slices_cut(number: int, work: SlicedWork) -> tuple[int, bool]:
    """Cuts the task, unless that is done. Returns how many slices are open, and whether they are new."""
    task = Task.objects.exclude(state__in=OVER).filter(pk=number).first()
    if task is None:
        return 0, False
    is_new = not task.slices.exists() and _cut(task, work)
    if is_new:
        work.show(number)
        _close(number, work)  # there may be nothing to do
    return task.slices.filter(state=TaskSlice.State.OPEN).count(), is_new


def _cut(task: Task, work: SlicedWork) -> bool:
    try:
        cut = work.cut(task.asked)
    except (OperationalError, InterfaceError):
        raise
    except Refused as refused:
        return _fail(task.pk, str(refused))
    except Exception:
        _fail(task.pk, BROKE_OFF)
        raise
    with transaction.atomic():
        locked = Task.objects.select_for_update().get(pk=task.pk)
        if locked.is_over or locked.slices.exists():
            return False
        TaskSlice.objects.bulk_create(
            TaskSlice(task=locked, place=place, asked=dict(asked)) for place, asked in enumerate(cut.slices)
        )
        locked.state, locked.asked, locked.changed = Task.State.RUNNING, {**task.asked, **cut.facts}, timezone.now()
        locked.save()
    return True


def _fail(number: int, problem: str) -> bool:
    fresh = {"state": Task.State.FAILED, "problem": problem[:LONGEST], "doing": "", "changed": timezone.now()}
    Task.objects.filter(pk=number).exclude(state__in=OVER).update(**fresh)
    return False


def task_do(number: int, work: SlicedWork, progress: Progress = lambda *_: None) -> Task:
    """Does the whole task in this process, together with whoever else works on it; returns it when it is over."""
    slices_cut(number, work)
    while not (task := Task.objects.get(pk=number)).is_over:
        if not slice_do(number, work, progress):
            progress(task.doing, task.percent, 100)
            time.sleep(LOOK_AGAIN_S)
    return task


def slice_do(number: int, work: SlicedWork, progress: Progress = lambda *_: None) -> bool:
    """Does one open slice. False: none is free."""
    held = _claim(number)
    if held is None:
        _close(number, work)
        return False
    try:
        report = _reporter(held, progress)
        _do(held, work, report)
        work.show(number)
    finally:
        let_go(Lock.SLICE, held.pk)
    _close(number, work)
    return True


def _claim(number: int) -> TaskSlice | None:
    rows = TaskSlice.objects.filter(task=number, state=TaskSlice.State.OPEN, task__state=Task.State.RUNNING)
    for place in rows.order_by("place").values_list("pk", flat=True):
        if not try_hold(Lock.SLICE, place):
            continue
        held = rows.select_related("task").filter(pk=place).first()  # it may have been done since
        if held is not None and held.tries < MOST_TRIES:
            TaskSlice.objects.filter(pk=place).update(tries=F("tries") + 1, percent=0, changed=timezone.now())
            Task.objects.filter(pk=number).update(changed=timezone.now())
            return held
        if held is not None:
            _end(held, f"set aside: it ended its worker {MOST_TRIES} times")
        let_go(Lock.SLICE, place)
    return None


def _do(held: TaskSlice, work: SlicedWork, report: Progress) -> None:
    try:
        result = work.do(held.task.asked, held.asked, report)
    except (OperationalError, InterfaceError):
        raise  # the database went away; the slice stays open
    except Refused as refused:
        _end(held, str(refused))
    except SoftTimeLimitExceeded:
        _end(held, "it took too long; there is more to do than one worker can do in time")
    except Exception as error:
        log.exception("%s failed", held)
        _end(held, f"{BROKE_OFF} ({type(error).__name__})")
    else:
        rows = TaskSlice.objects.filter(pk=held.pk)
        rows.update(state=TaskSlice.State.DONE, percent=100, result=result, changed=timezone.now())


def _end(held: TaskSlice, problem: str) -> None:
    log.warning("%s (%s): %s", held, held.asked.get("what", ""), problem)
    rows = TaskSlice.objects.filter(pk=held.pk)
    rows.update(state=TaskSlice.State.FAILED, problem=problem[:LONGEST], changed=timezone.now())


def _reporter(held: TaskSlice, progress: Progress) -> Progress:
    """Stores the progress of the slice and of the whole task, which never goes back."""
    last = [0.0]

    def report(doing: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - last[0] < EVERY_S:
            return
        last[0] = now
        TaskSlice.objects.filter(pk=held.pk).update(percent=min(99, 100 * done // max(1, total)))
        fresh = {"percent": Greatest(F("percent"), _percent(held.task_id)), "changed": timezone.now()}
        Task.objects.filter(pk=held.task_id, state=Task.State.RUNNING).update(doing=doing[:60], **fresh)
        progress(doing, _percent(held.task_id), 100)

    return report


def _percent(number: int) -> int:
    each = Case(When(state=TaskSlice.State.OPEN, then=F("percent")), default=100)
    found = TaskSlice.objects.filter(task=number).aggregate(whole=Avg(each))["whole"]
    return min(99, int(found or 0))


def _close(number: int, work: SlicedWork) -> None:
    """Ends the task if no slice is open. Results that cannot be joined now never can be: then it has failed."""
    try:
        _join(number, work)
    except (OperationalError, InterfaceError):
        raise  # the database went away; the task stays as it is
    except Exception as error:
        log.exception("the results of task %d cannot be joined", number)
        problem = str(error) if isinstance(error, Refused) else f"{BROKE_OFF} ({type(error).__name__})"
        with transaction.atomic():
            _fail(number, problem)
            TaskSlice.objects.filter(task=number).delete()


def _join(number: int, work: SlicedWork) -> None:
    """If all slices failed, so has the task."""
    with transaction.atomic():
        task = Task.objects.select_for_update().filter(pk=number, state=Task.State.RUNNING).first()
        if task is None or task.slices.filter(state=TaskSlice.State.OPEN).exists():
            return
        slices = list(task.slices.order_by("place"))
        failed = [one for one in slices if one.state == TaskSlice.State.FAILED]
        if failed and len(failed) == len(slices):
            task.state, task.problem = Task.State.FAILED, failed[0].problem
        else:
            task.result = work.join(task.asked, [one.result or {} for one in slices if one not in failed])
            task.state, task.percent = Task.State.DONE, 100
            if failed:
                task.result["failed"] = [{"what": one.asked.get("what", ""), "problem": one.problem} for one in failed]
                task.problem = _sentence(failed, len(slices))[:LONGEST]
        task.doing, task.changed = "", timezone.now()
        task.save()
        task.slices.all().delete()


def _sentence(failed: Sequence[TaskSlice], total: int) -> str:
    first = failed[0]
    return f"{len(failed)} of {total} slices failed, the first ({first.asked.get('what', '')}): {first.problem}"


def in_words(names: Iterable[str]) -> str:
    """The first name, and how many more."""
    first, *rest = names
    return f"{first} and {len(rest)} more" if rest else first
