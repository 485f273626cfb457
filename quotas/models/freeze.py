"""Change freezes: windows in which the configuration stays as it is."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from tenants.history import tracked


@tracked()
class Freeze(models.Model):
    """From `start` until `end`, or until it is lifted. Rows are kept; they are the history of freezes."""

    start = models.DateTimeField()
    end = models.DateTimeField()
    reason = models.CharField(max_length=500)
    roles = ArrayField(models.CharField(max_length=8), default=list, blank=True, help_text="roles that may pass")
    members = ArrayField(models.BigIntegerField(), default=list, blank=True, help_text="accounts that may pass")
    author = models.CharField(max_length=150)
    author_identity = models.CharField(max_length=80, blank=True, default="", help_text="see tenants.identity")
    created = models.DateTimeField(db_default=Now(), editable=False)
    lifted_at = models.DateTimeField(null=True, blank=True)
    lifted_author = models.CharField(max_length=150, blank=True, default="")
    lifted_reason = models.CharField(max_length=500, blank=True, default="")

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["end"], condition=Q(lifted_at=None), name="freeze_not_lifted")]
        constraints = [
            models.CheckConstraint(condition=Q(end__gt=F("start")), name="freeze_ends_after_start"),
            models.CheckConstraint(condition=~Q(author="") & ~Q(reason=""), name="freeze_author_and_reason"),
            models.CheckConstraint(
                condition=Q(lifted_at=None) | ~Q(lifted_author="") & ~Q(lifted_reason=""),
                name="freeze_lifted_with_reason",
            ),
        ]

    def __str__(self) -> str:
        return f"freeze {self.pk}"
