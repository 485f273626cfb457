"""Alerts as people ask for them."""

from __future__ import annotations

from django.db.models import QuerySet

from quotas.models import AlertState


def alerts_firing() -> QuerySet[AlertState]:
    """Those that were told, the longest first."""
    return AlertState.objects.filter(resolved_at=None, told_at__isnull=False).order_by("since", "name", "about")
