"""The Celery tasks of the API."""

from __future__ import annotations

import gc
from functools import cache

from celery import shared_task

from quotas.whole_tasks import Work, whole_task_run


@shared_task(name="quotas.run_document", soft_time_limit=3000, time_limit=3300)
def run_document(number: int) -> None:
    """Answers a large document as the web process would, and stores the response as the task's result."""
    whole_task_run(number, _work())


@cache
def _work() -> Work:
    # The views are slow to import, and a worker needs them for this task alone.
    from api.v1.document_runs import answer

    # A large document makes many objects; this keeps the garbage collector from scanning the loaded code as well.
    gc.freeze()
    return answer
