"""How jobs run: once per slot, however many schedulers there are, and never again after killing three workers."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from celery import Task
from celery.beat import PersistentScheduler, ScheduleEntry
from django.db import DatabaseError

logger = logging.getLogger(__name__)

SLOT: Final = "headroom_slot"
CRON_SECONDS: Final = 60  # a crontab's finest step


if TYPE_CHECKING:
    AnyTask = Task[Any, Any]
else:
    AnyTask = Task


class Job(AnyTask):
    """Base class of every task."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.request.called_directly:
            return super().__call__(*args, **kwargs)
        # The models exist only once the apps are loaded, which Celery does after importing this module.
        from quotas.models import jobs

        try:
            slot = self._slot()
            if not self._may_run(jobs, slot):
                return None
        except DatabaseError as error:
            # No job can work without the database; the next slot tries again.
            logger.warning("%s did not run because Postgres is down: %s", self.name, str(error).splitlines()[0])
            return None
        result = super().__call__(*args, **kwargs)
        if slot is not None:
            jobs.slot_done(job=self.name, slot=slot)
        return result

    def _slot(self) -> int | None:
        """None if the task was not sent by a scheduler."""
        slot = (self.request.headers or {}).get(SLOT)
        return None if slot is None else int(slot)

    def _may_run(self, jobs: Any, slot: int | None) -> bool:
        task_id, is_again = self.request.id, (self.request.delivery_info or {}).get("redelivered")
        if is_again and not jobs.delivery_note(job=self.name, task_id=task_id):
            logger.error("%s (%s) is set aside: it killed its worker too often", self.name, task_id)
            return False
        return slot is None or bool(jobs.slot_take(job=self.name, slot=slot, task_id=task_id))


class SlottedScheduler(PersistentScheduler):
    """Numbers its tasks by time slot, so that two schedulers send the same slot, which runs once."""

    def apply_async(self, entry: ScheduleEntry, producer: Any = None, advance: bool = True, **kwargs: Any) -> Any:
        every = getattr(entry.schedule, "run_every", None)
        seconds = every.total_seconds() if every else CRON_SECONDS
        options = entry.options or {}
        headers = {**options.get("headers", {}), SLOT: int(time.time() // seconds)}
        entry.options = {**options, "headers": headers}
        return super().apply_async(entry, producer=producer, advance=advance, **kwargs)
