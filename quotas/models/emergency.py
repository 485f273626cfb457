"""Emergencies: what was done without the consent of others, until somebody else has looked at it."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.history import tracked


@tracked()
class Emergency(models.Model):
    """An edit that skipped its approval or passed a freeze, or a bypass. It stays; only the review is added."""

    action = models.CharField(max_length=40, help_text="the service function: limit_set")
    what = models.CharField(max_length=200, help_text="revision 12, bypass of all")
    author = models.CharField(max_length=150)
    author_identity = models.CharField(max_length=80, blank=True, default="", help_text="see tenants.identity")
    reason = models.CharField(max_length=500)
    at = models.DateTimeField(db_default=Now(), editable=False)
    reviewer = models.CharField(max_length=150, blank=True, default="", help_text="who else has looked at it")
    reviewer_identity = models.CharField(max_length=80, blank=True, default="", help_text="see tenants.identity")
    review_reason = models.CharField(max_length=500, blank=True, default="")
    reviewed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["id"], condition=Q(reviewed_at=None), name="emergency_open")]
        constraints = [
            models.CheckConstraint(condition=~Q(author="") & ~Q(reason=""), name="emergency_author_and_reason"),
            models.CheckConstraint(
                condition=Q(reviewed_at=None, reviewer="") | Q(reviewed_at__isnull=False) & ~Q(reviewer=""),
                name="emergency_reviewed_by_somebody",
            ),
        ]

    def __str__(self) -> str:
        return f"emergency {self.pk}"
