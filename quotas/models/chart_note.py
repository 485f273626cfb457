"""Notes that people put on charts, such as the start of a campaign."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from tenants.models import Tenant

LONGEST_TEXT = 120


class ChartNote(models.Model):
    """On the charts of one tenant, or without a tenant on every chart, of the time `at`."""

    at = models.DateTimeField(db_index=True)
    text = models.CharField(max_length=LONGEST_TEXT)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    author = models.CharField(max_length=150)
    created = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        db_table = "quotas_chart_note"
        ordering = ["-at", "-id"]
        constraints = [models.CheckConstraint(condition=~Q(text="") & ~Q(author=""), name="chart_note_text_and_author")]

    def __str__(self) -> str:
        return f"note {self.pk}"
