"""Changes as the faces and the health check need them."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from quotas.models import Change
from quotas.models.change import State

# The scheduler looks every second; past this, it is dead or cannot go on.
OVERDUE_AFTER = timedelta(seconds=10)


def changes_overdue(now: datetime | None = None) -> QuerySet[Change]:
    """Scheduled, due, and not yet promoted or blocked; the longest overdue first."""
    latest = (now or timezone.now()) - OVERDUE_AFTER
    return Change.objects.filter(state=State.SCHEDULED, at__lt=latest).order_by("at")
