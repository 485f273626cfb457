"""The Celery tasks of the API."""

from __future__ import annotations

from celery import shared_task

from quotas.whole_tasks import whole_task_run


@shared_task(name="quotas.run_document", soft_time_limit=3000, time_limit=3300)
def run_document(number: int) -> None:
    """Answers a large document as the web process would, and stores the response as the task's result."""
    # The views are slow to import, and a worker needs them for this task alone.
    from api.v1.document_runs import answer

    whole_task_run(number, answer)
