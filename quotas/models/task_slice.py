"""The slices of long tasks."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from quotas.models.recommendation import Task
from tenants.constraints import one_of


class TaskSlice(models.Model):
    """A part of a long task that one worker does at a time. Deleted when the whole task is over.

    Whoever works on a slice holds its advisory lock (see quotas.locks), which Postgres frees when the worker dies.
    """

    class State(models.TextChoices):
        OPEN = "open"
        DONE = "done"
        FAILED = "failed"

    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="slices")
    place = models.IntegerField(help_text="the results are joined in this order")
    state = models.CharField(max_length=8, choices=State.choices, default=State.OPEN)
    asked = models.JSONField(default=dict, help_text="what this slice is asked to do")
    tries = models.SmallIntegerField(default=0, help_text="how often a worker has begun it")
    percent = models.SmallIntegerField(default=0)
    result = models.JSONField(null=True, blank=True)
    problem = models.CharField(max_length=500, blank=True, default="", help_text="why it failed")
    changed = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["task", "place"]
        constraints = [
            models.UniqueConstraint(fields=["task", "place"], name="task_slice_place"),
            one_of("state", ("open", "done", "failed"), "task_slice_state"),
            models.CheckConstraint(condition=Q(percent__gte=0, percent__lte=100), name="task_slice_percent"),
        ]

    def __str__(self) -> str:
        return f"slice {self.place + 1} of task {self.task_id}"
