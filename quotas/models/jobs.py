"""What jobs remember of themselves: the last slot that each ran for, and tasks that kept dying."""

from __future__ import annotations

from django.db import models


class JobSlot(models.Model):
    """One row a job: whoever takes a slot runs it, however many schedulers ask."""

    job = models.CharField(max_length=100, primary_key=True)
    slot = models.BigIntegerField()
    task_id = models.CharField(max_length=64)  # it may come again, if its worker died
    is_done = models.BooleanField(default=False)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.job}, slot {self.slot}"


class Delivery(models.Model):
    """A task that came back because its worker died; after the third time it is set aside and run no more."""

    task_id = models.CharField(max_length=64, primary_key=True)
    job = models.CharField(max_length=100)
    times = models.IntegerField()
    at = models.DateTimeField()
    is_set_aside = models.BooleanField(default=False)

    class Meta:
        indexes = [models.Index(fields=["is_set_aside", "-at"], name="delivery_set_aside")]

    def __str__(self) -> str:
        return f"{self.job}, delivered {self.times} times"
