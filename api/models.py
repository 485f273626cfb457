from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class StoredAnswer(models.Model):
    """The response to a create with an Idempotency-Key. A repetition gets the same response and creates nothing."""

    author = models.CharField(max_length=150)
    key = models.CharField(max_length=255)
    request_hash = models.CharField(max_length=64, help_text="SHA-256 of what was asked")
    status = models.PositiveSmallIntegerField(default=0)
    headers = models.JSONField(default=dict)
    body = models.JSONField(default=dict, help_text="without what is shown only once")
    created = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        indexes = [models.Index(fields=["created"], name="stored_answer_created")]
        constraints = [models.UniqueConstraint(fields=["author", "key"], name="stored_answer_once")]

    def __str__(self) -> str:
        return f"{self.author} {self.key}"
