"""A list as somebody likes to see it: the search, filters and order of a page, under a name."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

LONGEST_NAME = 60
LONGEST_QUERY = 1_000


class SavedView(models.Model):
    """`query`: the page's query string, with its parameters in the order that quotas.saved_views writes them."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    page = models.CharField(max_length=32)
    name = models.CharField(max_length=LONGEST_NAME)
    query = models.CharField(max_length=LONGEST_QUERY, blank=True, default="")
    is_shared = models.BooleanField(default=False)
    created = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        db_table = "quotas_saved_view"
        ordering = ["name", "id"]
        constraints = [
            models.UniqueConstraint(fields=["owner", "page", "name"], name="saved_view_once"),
            models.CheckConstraint(condition=~Q(name="") & ~Q(page=""), name="saved_view_name"),
        ]

    def __str__(self) -> str:
        return self.name
