"""Long tasks that a person asked for: filed, run by a worker, with visible progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.utils import timezone

from quotas.errors import Refused
from quotas.models import Task

EVERY_S = 0.5  # between two writes of the progress
LONGEST = 500
PATIENCE = timedelta(seconds=30)
BROKE_OFF = "it broke off; the server's log says why"

Progress = Callable[[str, int, int], None]  # what, done, of how many
TaskFunction = Callable[[Mapping[str, Any], Progress], dict[str, Any]]  # what was asked → what came of it


def task_file(*, kind: Task.Kind, author: str, asked: Mapping[str, Any]) -> Task:
    return Task.objects.create(kind=kind, author=author, asked=dict(asked))


def tasks_waiting() -> list[Task]:
    """Tasks that no worker has taken, or of which nobody has heard, within PATIENCE."""
    late = timezone.now() - PATIENCE
    waiting = Q(state=Task.State.WAITING, created__lt=late) | Q(state=Task.State.RUNNING, changed__lt=late)
    return list(Task.objects.filter(waiting).defer("asked", "result").order_by("id"))


def task_run(number: int, work: TaskFunction) -> None:
    """Runs a task. A second worker finds it taken; after a worker was killed, another one starts it again."""
    taken = Task.objects.filter(pk=number).exclude(state__in=[Task.State.DONE, Task.State.FAILED])
    if not taken.update(state=Task.State.RUNNING, changed=timezone.now()):
        return
    rows = Task.objects.filter(pk=number)
    try:
        result = work(rows.get().asked, _reporter(number))
    except Refused as refused:
        rows.update(state=Task.State.FAILED, problem=str(refused)[:LONGEST], changed=timezone.now())
    except Exception:
        rows.update(state=Task.State.FAILED, problem=BROKE_OFF, changed=timezone.now())
        raise
    else:
        rows.update(state=Task.State.DONE, percent=100, doing="", result=result, changed=timezone.now())


def _reporter(number: int) -> Progress:
    last = [0.0]

    def report(doing: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - last[0] >= EVERY_S:
            last[0] = now
            percent = min(99, 100 * done // max(1, total))
            Task.objects.filter(pk=number).update(doing=doing[:60], percent=percent, changed=timezone.now())

    return report
