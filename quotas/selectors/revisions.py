"""Reading the history."""

from __future__ import annotations

from quotas.models import Revision
from quotas.policies.diff import ObjectDiff, State, differences


def difference_between(*, since: int, until: int) -> tuple[ObjectDiff, ...]:
    """What the revisions after `since`, up to `until`, changed all together."""
    before: dict[str, State] = {}
    after: dict[str, State] = {}
    rows = Revision.objects.filter(number__gt=since, number__lte=until).order_by("number")
    for old, new in rows.values_list("before", "after").iterator():
        before = {**old, **before}  # the earliest change knows how it was
        after |= new
    return differences(before, after)
