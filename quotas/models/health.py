from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class Heartbeat(models.Model):
    """The last sign of life of a process that has no port to ask: `publisher`, `worker`, `beat`."""

    name = models.CharField(max_length=64, primary_key=True)
    at = models.DateTimeField()
    detail = models.CharField(max_length=200, blank=True, default="")

    def __str__(self) -> str:
        return self.name


def beat(name: str, detail: str = "") -> None:
    """The database's clock stamps it, so that machines need not agree on the time."""
    fresh: dict[str, object] = {"at": Now(), "detail": detail[:200]}
    if not Heartbeat.objects.filter(name=name).update(**fresh):
        Heartbeat.objects.update_or_create(name=name, defaults=fresh)
