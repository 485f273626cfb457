"""Quiet hours of an alert target: from one minute of the day to another, in its time zone; they may span midnight."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

_CLOCK: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")


def minute_of(clock: str) -> int:
    """`22:30` is 1350."""
    match = _CLOCK.fullmatch(clock)
    if match is None:
        raise ValueError("write a time of the day like 22:30")
    return int(match[1]) * 60 + int(match[2])


def clock_of(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def quiet_until(now: datetime, begin: int | None, end: int | None, zone: str) -> datetime | None:
    """When the current quiet hours end; None: it is not quiet now."""
    if begin is None or end is None or begin == end:
        return None
    local = now.astimezone(ZoneInfo(zone))
    minute = local.hour * 60 + local.minute
    is_quiet = begin <= minute < end if begin < end else minute >= begin or minute < end
    if not is_quiet:
        return None
    over = local.replace(hour=end // 60, minute=end % 60, second=0, microsecond=0)
    return over if over > local else over + timedelta(days=1)
