"""A whole calibration run: measures, files and simulates, so that every waiting recommendation has a forecast."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from quotas.errors import Refused
from quotas.long_tasks import Progress, task_file, task_run
from quotas.models import Recommendation, Task
from quotas.models.recommendation import Stage
from quotas.recommendations.calibrate import AUTHOR, Calibrated, calibrate
from quotas.recommendations.lifecycle import recommendation_simulate


def calibration_run(now: datetime | None = None, progress: Progress = lambda *_: None) -> Calibrated:
    found = calibrate(now, progress)
    drafts = Recommendation.objects.filter(stage=Stage.DRAFT).order_by("id").values_list("pk", flat=True)
    for place, number in enumerate(drafts):
        progress("simulating", place, len(drafts))
        try:
            recommendation_simulate(recommendation=number, author=AUTHOR)
        except Refused as refused:
            Recommendation.objects.filter(pk=number).update(problem=str(refused)[:500])
    return found


def calibration_ask(*, author: str, reason: str = "") -> Task:
    """Queues a run, or returns the one that is waiting or running."""
    rows = Task.objects.filter(kind=Task.Kind.CALIBRATE, state__in=[Task.State.WAITING, Task.State.RUNNING])
    return rows.first() or task_file(kind=Task.Kind.CALIBRATE, author=author, asked={"reason": reason})


def calibration_task(number: int) -> None:
    task_run(number, _calibrated)


def calibration_now(*, author: str, progress: Progress = lambda *_: None) -> Task:
    """Runs in this process, and records the run as a worker would."""

    def work(asked: Mapping[str, Any], report: Progress) -> dict[str, Any]:
        def both(doing: str, done: int, total: int) -> None:
            report(doing, done, total)
            progress(doing, done, total)

        return _calibrated(asked, both)

    task = task_file(kind=Task.Kind.CALIBRATE, author=author, asked={})
    task_run(task.pk, work)
    task.refresh_from_db()
    return task


def _calibrated(_: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    found = calibration_run(progress=progress)
    return {
        "limits": found.limits,
        "idle": found.idle,
        "fitting": found.fitting,
        "insufficient": found.insufficient,
        "proposed": found.proposed,
    }
