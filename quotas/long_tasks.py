"""Long tasks that a person asked for: filed, run by a worker, with visible progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.utils import timezone

from quotas.models import Task

EVERY_S = 0.5  # between two writes of the progress
LONGEST = 500
MOST_TRIES = 3  # of workers that died with it
PATIENCE = timedelta(seconds=30)
BROKE_OFF = "it broke off; the server's log says why"

Progress = Callable[[str, int, int], None]  # what, done, of how many

OVER = (Task.State.DONE, Task.State.FAILED)


def task_file(*, kind: Task.Kind, author: str, asked: Mapping[str, Any]) -> Task:
    return Task.objects.create(kind=kind, author=author, asked=dict(asked))


def tasks_waiting() -> list[Task]:
    """Tasks that no worker has taken, or of which nobody has heard, within PATIENCE."""
    late = timezone.now() - PATIENCE
    waiting = Q(state=Task.State.WAITING, created__lt=late) | Q(state=Task.State.RUNNING, changed__lt=late)
    return list(Task.objects.filter(waiting).defer("asked", "result").order_by("id"))
