"""Changes of overrides that are active or upcoming: another end, or other values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Unpack

from django.utils import timezone

from quotas.changes.draft import Permits, draft
from quotas.errors import refuse
from quotas.models import Override, Revision
from quotas.overrides import (
    Limits,
    add_override,
    cancel_override,
    check_times,
    live_overrides,
    set_change,
    set_end,
)


def overrides_extend(
    *,
    overrides: Sequence[int],
    author: str,
    reason: str,
    by: timedelta | None = None,
    until: datetime | None = None,
    **permits: Unpack[Permits],
) -> Revision | None:
    """Moves the end of each by as much, or to the same moment; all in one revision, or none."""
    if (by is None) == (until is None):
        raise refuse("until", "either", "say either for how much longer, or until when")
    with draft(action="override_extend", author=author, reason=reason, **permits) as opened:
        now = timezone.now()
        for row in live_overrides(overrides, "give a new one instead"):
            if by is not None and row.end is None:
                raise refuse("by", "endless", f"override {row.pk} of {row.tenant} has no end; say until when it holds")
            end = until if until is not None else _later(row.end or now, by or timedelta())
            check_times(max(row.start, now), end, now)
            set_end(opened, row, end)
    return opened.revision


def override_update(
    *,
    override: int,
    author: str,
    reason: str,
    limits: Limits | None = None,
    multiplier: tuple[int, int] | None = None,
    end: datetime | None = None,
    is_endless: bool = False,
    **permits: Unpack[Permits],
) -> Override:
    """Other values, another end, or both. What is not given stays as it is; `is_endless` takes the end away.

    Other values end the override and begin another one with them: what applied until now stays known, so that used
    quota stays used.
    """
    with draft(action="override_update", author=author, reason=reason, **permits) as opened:
        (row,) = live_overrides([override], "give a new one instead")
        now = timezone.now()
        wanted = None if is_endless else end or row.end
        check_times(max(row.start, now), wanted, now)
        if not limits and multiplier is None:
            if wanted != row.end:
                set_end(opened, row, wanted)
            return row
        fresh = Override(
            tenant=row.tenant,
            endpoint=row.endpoint,
            start=max(row.start, now),
            end=wanted,
            carry=row.carry,
            reason=opened.reason,
            author=opened.author,
        )
        set_change(fresh, limits or {}, multiplier)
        cancel_override(opened, row)
        return add_override(opened, fresh)


def _later(end: datetime, by: timedelta) -> datetime:
    if by <= timedelta():
        raise refuse("by", "order", "say for how much longer; to end it earlier, edit its end")
    try:
        return end + by
    except OverflowError:
        raise refuse("by", "range", "that is too long; choose an earlier end") from None
