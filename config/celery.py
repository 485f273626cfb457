"""The Celery application: the schedule, and the settings that let a task survive its worker."""

from __future__ import annotations

import logging
import os
import warnings
from datetime import timedelta
from typing import Any

from celery import Celery
from celery.exceptions import SecurityWarning
from celery.schedules import crontab
from celery.signals import heartbeat_sent
from django.conf import settings
from django.db import Error, close_old_connections
from kombu import Queue

from config.env import one_line_errors

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
logger = logging.getLogger(__name__)
# Celery warns root about pickled messages, which are not accepted here.
warnings.filterwarnings("ignore", category=SecurityWarning)
with one_line_errors():
    settings.SECRET_KEY  # noqa: B018 - reads the settings now, so that an invalid one ends with one line


def every(step: timedelta | crontab, task: str, *, expires: float | None = None) -> dict[str, Any]:
    """A task expires when the next one is due, unless `expires` says otherwise."""
    seconds = step.total_seconds() if isinstance(step, timedelta) else None
    return {"task": task, "schedule": step, "options": {"expires": expires or seconds}}


app = Celery("headroom", task_cls="config.jobs:Job")
app.config_from_object(
    {
        "broker_url": settings.BROKER_URL,
        "broker_connection_retry_on_startup": True,
        # Longer than task_time_limit: Redis delivers a task again if it is not acknowledged within this time.
        "broker_transport_options": {"visibility_timeout": 3600, **settings.BROKER_OPTIONS},
        # Acknowledged after they ran, so that the tasks of a killed worker are delivered again.
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_ignore_result": True,
        "task_soft_time_limit": 1500,
        "task_time_limit": 1800,
        "worker_prefetch_multiplier": 1,
        # Slices are many and long. In a queue of their own they do not delay the other tasks if one worker is started
        # with `-Q celery` and another with `-Q slices`. A worker without -Q takes both.
        "task_queues": [Queue("celery"), Queue("slices")],
        "task_default_queue": "celery",
        "task_routes": {name: {"queue": "slices"} for name in ("quotas.run_slice", "quotas.run_document")},
        "beat_scheduler": "config.jobs:SlottedScheduler",
        # Nobody sends commands to workers. Their mailbox would only be one more channel to lose with the broker, and
        # kombu cannot close it once its connection is gone: it looks for an address there and ends the worker.
        "worker_enable_remote_control": False,
        "worker_consumer": "config.consumer:StrictConsumer",
        "worker_hijack_root_logger": False,
        "worker_cancel_long_running_tasks_on_connection_loss": True,
        "timezone": "UTC",
        "beat_schedule": {
            "heartbeat": every(timedelta(seconds=3), "config.heartbeat", expires=10),
            "drain": every(timedelta(seconds=settings.HEADROOM_DRAIN_SECONDS), "quotas.drain"),
            "fold": every(timedelta(seconds=5), "quotas.fold"),
            "apply-due-changes": every(timedelta(seconds=1), "quotas.apply_due", expires=5),
            "measure-tiers": every(timedelta(minutes=1), "quotas.measure_tiers"),
            "measure-tenants": every(timedelta(minutes=1), "quotas.measure_tenants"),
            "read-adaptive-limits": every(timedelta(seconds=10), "quotas.read_adaptive"),
            "calibrate-targets": every(timedelta(hours=1), "quotas.calibrate_targets"),
            "calibrate": every(crontab(hour="3", minute="17"), "quotas.calibrate", expires=3600),
            "advance-recommendations": every(timedelta(minutes=5), "quotas.advance"),
            "watch-trials": every(timedelta(minutes=1), "quotas.watch_trials"),
            "run-waiting-tasks": every(timedelta(seconds=15), "quotas.run_waiting"),
            "alerts": every(timedelta(seconds=15), "quotas.alerts"),
            "keep-usage-up": every(timedelta(hours=1), "quotas.keep_up"),
        },
    }
)
app.autodiscover_tasks()


@app.task(name="config.heartbeat")
def heartbeat() -> None:
    """Its row is fresh only if beat sends, the broker delivers and a worker runs."""
    report("beat")


@heartbeat_sent.connect
def report_worker(sender: Any, **_: Any) -> None:
    """A worker for slices alone has a name of its own, so that it does not stand in for the one that drains."""
    report("slices" if sender.eventer.hostname.startswith("slices@") else "worker")


def report(name: str) -> None:
    # The models exist only once the apps are loaded, which Celery does after importing this module.
    from quotas.models.jobs import record_heartbeat

    close_old_connections()
    try:
        record_heartbeat(name)
    except Error as error:
        # /healthz reports that the database is down; the worker must not end because of it.
        logger.warning("The heartbeat of %s was not stored: %s", name, str(error).splitlines()[0])
