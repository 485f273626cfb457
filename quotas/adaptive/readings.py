"""Writes the timeline of limits that adapt: a task reads them every ten seconds."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from quotas.adaptive.limits import LiveValue, live_values
from quotas.adaptive.queries import Series
from quotas.models import AdaptiveReading

KEPT: Final = timedelta(hours=48)
AT_LEAST_EVERY: Final = timedelta(minutes=1)  # also if nothing changed, so that a gap is seen as one


def readings_take(now: datetime) -> int:
    """Returns how many were written. Raises StoreError if Redis does not answer."""
    AdaptiveReading.objects.filter(at__lt=now - KEPT).delete()
    values = live_values()
    last = _latest(now) if values else {}
    wanted = [value for value in values if _is_new(value, last.get(_series(value)), now)]
    AdaptiveReading.objects.bulk_create(_reading(value, now) for value in wanted)
    return len(wanted)


def _series(value: LiveValue) -> Series:
    return Series(value.policy, value.limit, value.tenant_number)


def _latest(now: datetime) -> dict[Series, AdaptiveReading]:
    """Only those that a repetition may be left out after."""
    recent = AdaptiveReading.objects.filter(at__gt=now - AT_LEAST_EVERY).order_by("at")
    return {Series(row.policy, row.limit_name, row.tenant_number): row for row in recent}


def _is_new(value: LiveValue, last: AdaptiveReading | None, now: datetime) -> bool:
    if last is None:
        return True
    # The numbers after the colon differ every time.
    why, was = (text.partition(":")[0] for text in (value.reason, last.reason))
    return (value.value, value.least, value.most, why) != (last.value, last.least, last.most, was) and last.at < now


def _reading(value: LiveValue, now: datetime) -> AdaptiveReading:
    return AdaptiveReading(
        at=now,
        kind=value.kind,
        policy=value.policy,
        limit_name=value.limit,
        endpoint_number=value.endpoint_number,
        tenant_number=value.tenant_number,
        value=value.value,
        least=value.least,
        most=value.most,
        reason=value.reason,
    )
