"""Times that a service function is given."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from quotas.policy.moments import WITHIN, is_within
from quotas.services.errors import refuse


def check_moment(field: str, moment: datetime) -> None:
    if timezone.is_naive(moment):
        raise refuse(field, "timezone", f"{field} has no time zone; write it like 2030-01-31T18:00:00Z")
    if not is_within(moment):
        raise refuse(field, "range", f"{field} is in the year {moment.year}; {WITHIN}")
