"""The Celery tasks. Each is safe to run twice, and at the same time as itself."""

from __future__ import annotations

import logging
from contextlib import suppress

from celery import current_app, shared_task
from django.db import DatabaseError, transaction
from django.utils import timezone
from redis import RedisError

from quotas.adaptive.readings import readings_take
from quotas.adaptive.targets import targets_measure
from quotas.alerts.sending import alerts_send
from quotas.alerts.watch import alerts_watch
from quotas.changes.rollout import changes_apply_due
from quotas.long_tasks import tasks_waiting
from quotas.models import Task
from quotas.pools.demand import DEMAND
from quotas.recommendations.calibrate import AUTHOR
from quotas.recommendations.evaluate import recommendations_advance
from quotas.recommendations.remeasurement import stale_measure
from quotas.recommendations.runs import CALIBRATION, calibration_ask
from quotas.slices import slice_do, slices_cut
from quotas.tenant_summary import measure_tenants
from quotas.trials.watch import trials_watch
from quotas.usage import maintenance
from quotas.usage.drain import DrainError, drain_once
from quotas.usage.fold import UnreadableLogError, fold_one, folds_due
from quotas.usage.tier_usage import measure_tier_usage
from quotas.what_if import WHAT_IF
from quotas.whole_tasks import old_tasks_delete

log = logging.getLogger(__name__)

SLICED = {Task.Kind.CALIBRATE: CALIBRATION, Task.Kind.WHAT_IF: WHAT_IF, Task.Kind.SHARES: DEMAND}
LONGEST_WAIT_S = 86_400  # for a free worker
FOLD_EVERY_S = 5  # the interval of `fold_usage` in the schedule
RUN_DOCUMENT = "quotas.run_document"  # a task of the API, which shows the result as a response
ASKED_AGAIN_S = 15  # the interval of `run_waiting_tasks` in the schedule


@shared_task(name="quotas.drain", soft_time_limit=300, time_limit=360)
def drain_usage() -> None:
    try:
        log.debug("drained: %s", drain_once())
    except DrainError as error:
        log.warning("%s", error)


@shared_task(name="quotas.fold", soft_time_limit=60, time_limit=90)
def fold_usage() -> None:
    """Sends one message for each fold that is due, so that a long one does not keep the short ones waiting."""
    try:
        due = folds_due(timezone.now())
    except DatabaseError as error:
        log.warning("Postgres did not say which folds are due; the next run will try again: %s", error)
        return
    for name in due:
        fold_usage_into.apply_async((name,), expires=FOLD_EVERY_S)


@shared_task(name="quotas.fold_into", soft_time_limit=300, time_limit=360)
def fold_usage_into(name: str) -> None:
    try:
        log.debug("folded into %s: %s", name, fold_one(name, timezone.now()))
    except DatabaseError as error:
        log.warning("Postgres did not store the fold; the next run will try again: %s", error)
    except UnreadableLogError as error:
        log.error("%s", error)  # noqa: TRY400 - where in the code says nothing; the sentence names the row


@shared_task(name="quotas.apply_due", soft_time_limit=300, time_limit=360)
def apply_due_changes() -> None:
    if count := changes_apply_due():
        log.info("due changes applied: %s", count)


@shared_task(name="quotas.keep_up", soft_time_limit=300, time_limit=360)
def maintain_usage() -> None:
    log.info("usage tables: %s", maintenance.maintain_usage_tables())
    log.info("old tasks forgotten: %s", old_tasks_delete(timezone.now()))


@shared_task(name="quotas.measure_tiers", soft_time_limit=300, time_limit=360)
def measure_tiers() -> None:
    log.debug("pairs of tier and endpoint: %s", measure_tier_usage(timezone.now()))


@shared_task(name="quotas.measure_tenants", soft_time_limit=300, time_limit=360)
def measure_tenant_summary() -> None:
    log.debug("tenants with new figures: %s", measure_tenants(timezone.now()))


@shared_task(name="quotas.calibrate", soft_time_limit=300, time_limit=360)
def calibrate_limits() -> None:
    task = calibration_ask(author=AUTHOR)
    run_task(task.pk, task.kind)


@shared_task(name="quotas.read_adaptive", soft_time_limit=20, time_limit=30)
def read_adaptive_limits() -> None:
    try:
        log.debug("readings of adaptive limits: %s", readings_take(timezone.now()))
    except RedisError as error:
        log.warning("Redis did not tell the live values of adaptive limits; the next run will try again: %s", error)


@shared_task(name="quotas.calibrate_targets", soft_time_limit=120, time_limit=180)
def calibrate_targets() -> None:
    log.info("endpoints with a new target: %s", targets_measure(timezone.now()))


@shared_task(name="quotas.advance", soft_time_limit=300, time_limit=360)
def advance_recommendations() -> None:
    if measured := stale_measure():
        log.info("stale recommendations measured again: %s", measured)
    if moved := recommendations_advance():
        log.info("recommendations advanced: %s", ", ".join(f"{row.pk} to {row.stage}" for row in moved))


@shared_task(name="quotas.watch_trials", soft_time_limit=120, time_limit=180)
def watch_trials() -> None:
    for event in trials_watch():
        log.info("change %s: %s: %s", event.change, event.what, event.why)


@shared_task(name="quotas.run_task", soft_time_limit=300, time_limit=360)
def run_task(number: int, kind: str) -> None:
    """Cuts a task into slices and sends one message for each, to whichever workers there are.

    If the slices are there already, some of their messages may be lost; those sent now expire like the next round's.
    A document is not cut.
    """
    if kind == Task.Kind.DOCUMENT:
        current_app.send_task(RUN_DOCUMENT, (number,), expires=ASKED_AGAIN_S)
        return
    count, is_new = slices_cut(number, SLICED[Task.Kind(kind)])
    for _ in range(count):
        run_slice.apply_async((number, kind), expires=LONGEST_WAIT_S if is_new else ASKED_AGAIN_S)


def task_send(task: Task) -> None:
    """Once the transaction is committed. If the broker is down, beat sends the task later."""

    def send() -> None:
        with suppress(run_task.OperationalError):
            run_task.delay(task.pk, task.kind)

    transaction.on_commit(send)


@shared_task(name="quotas.run_slice", soft_time_limit=3000, time_limit=3300)
def run_slice(number: int, kind: str) -> None:
    slice_do(number, SLICED[Task.Kind(kind)])


@shared_task(name="quotas.run_waiting", soft_time_limit=60, time_limit=90)
def run_waiting_tasks() -> None:
    """Sends tasks again that no worker has taken, such as those filed while the broker was down.

    A message expires when the next one is due, so that messages do not pile up.
    """
    for task in tasks_waiting():
        run_task.apply_async((task.pk, task.kind), expires=ASKED_AGAIN_S)


@shared_task(name="quotas.alerts", soft_time_limit=120, time_limit=180)
def watch_alerts() -> None:
    if told := alerts_watch():
        log.info("alerts: %s", "; ".join(f"{event.state}: {event.text}" for event in told))
    alerts_send()
