"""Overrides as people ask for them: upcoming, active, ended. What is enforced, Lua's clock decides by itself."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from django.db.models import Q

from quotas.models import Override

State = Literal["upcoming", "active", "ended"]
UPCOMING, ACTIVE, ENDED = STATES = ("upcoming", "active", "ended")


def override_state(row: Override, now: datetime) -> State:
    if row.cancelled_at or (row.end and row.end <= now):
        return "ended"
    return "upcoming" if row.start > now else "active"


def overrides_in(state: str, now: datetime) -> Q:
    """The condition on rows for `override_state` to be so."""
    ended = Q(cancelled_at__isnull=False) | Q(end__lte=now)
    if state == ENDED:
        return ended
    return ~ended & (Q(start__gt=now) if state == UPCOMING else Q(start__lte=now))
