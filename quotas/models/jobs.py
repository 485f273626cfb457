"""State of processes and jobs: heartbeats, the last slot each job ran for, and tasks that killed their worker."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection, models
from django.db.models import F
from django.db.models.functions import Now

MOST_DELIVERIES = 3
PUBLISHER_STALE_AFTER = timedelta(seconds=10)  # without a sign of life, it is taken for gone
PUBLISHER = "publisher"  # its heartbeat's detail is the newest revision that all shards have
PUBLISH_TROUBLE = "publisher.trouble"  # why the publisher failed; not a process, and gone when it works again
WATCH_JOB = "quotas.alerts"
WATCH = "watch"  # the heartbeat of the watch of alerts: nothing went wrong while it evaluated all rules
_TAKE = """
    INSERT INTO quotas_jobslot AS held (job, slot, task_id, is_done, at) VALUES (%s, %s, %s, false, now())
    ON CONFLICT (job) DO UPDATE SET slot = EXCLUDED.slot, task_id = EXCLUDED.task_id, is_done = false, at = now()
    WHERE held.slot < EXCLUDED.slot
       OR held.slot = EXCLUDED.slot AND held.task_id = EXCLUDED.task_id AND NOT held.is_done
    RETURNING slot
"""


class Heartbeat(models.Model):
    """The last sign of life of what has no port: `publisher`, `worker`, `beat`, and the `watch` of alerts."""

    name = models.CharField(max_length=64, primary_key=True)
    at = models.DateTimeField()
    detail = models.CharField(max_length=200, blank=True, default="")

    def __str__(self) -> str:
        return self.name


def record_heartbeat(name: str, detail: str = "") -> None:
    """Uses the database's clock, because the clocks of machines may differ."""
    fresh: dict[str, object] = {"at": Now(), "detail": detail[:200]}
    if not Heartbeat.objects.filter(name=name).update(**fresh):
        Heartbeat.objects.update_or_create(name=name, defaults=fresh)


def record_publish_trouble(reason: str) -> None:
    """Empty: there is none."""
    if reason:
        record_heartbeat(PUBLISH_TROUBLE, reason)
    else:
        Heartbeat.objects.filter(name=PUBLISH_TROUBLE).delete()


class JobSlot(models.Model):
    """The last slot of a job that was taken. One task per slot runs, however many schedulers send one."""

    job = models.CharField(max_length=100, primary_key=True)
    slot = models.BigIntegerField()
    task_id = models.CharField(max_length=64)  # the same task may be delivered again if its worker died
    is_done = models.BooleanField(default=False)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.job}, slot {self.slot}"


class Delivery(models.Model):
    """A task that was delivered again because its worker died. After the third time it is no longer run."""

    task_id = models.CharField(max_length=64, primary_key=True)
    job = models.CharField(max_length=100)
    times = models.IntegerField()
    at = models.DateTimeField()
    is_set_aside = models.BooleanField(default=False)

    class Meta:
        indexes = [models.Index(fields=["is_set_aside", "-at"], name="delivery_set_aside")]

    def __str__(self) -> str:
        return f"{self.job}, delivered {self.times} times"


def watched_at() -> datetime | None:
    """When the alerts were last evaluated. Workers of releases without this heartbeat only note the slot."""
    beats = Heartbeat.objects.filter(name=WATCH).values_list("at")
    slots = JobSlot.objects.filter(job=WATCH_JOB, is_done=True).values_list("at")
    return max((at for (at,) in beats.union(slots, all=True)), default=None)


def slot_take(*, job: str, slot: int, task_id: str) -> bool:
    """Whether this task may run the slot. True again for the same task, if its worker died before it was done."""
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, [job, slot, task_id])
        return cursor.fetchone() is not None


def slot_done(*, job: str, slot: int) -> None:
    JobSlot.objects.filter(job=job, slot=slot).update(is_done=True)


def delivery_note(*, job: str, task_id: str) -> bool:
    """Counts another delivery of a task; False: it came too often and is set aside."""
    row, is_new = Delivery.objects.get_or_create(task_id=task_id, defaults={"job": job, "times": 2, "at": Now()})
    if not is_new:
        Delivery.objects.filter(pk=row.pk).update(times=F("times") + 1, at=Now())
        row.refresh_from_db()
    if row.times > MOST_DELIVERIES and not row.is_set_aside:
        Delivery.objects.filter(pk=row.pk).update(is_set_aside=True)
    return row.times <= MOST_DELIVERIES
