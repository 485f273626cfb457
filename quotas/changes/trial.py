"""What a change on trial leaves in the tables, inside an open draft: its state, and what its canaries have had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quotas.changes.draft import Draft
from quotas.changes.snapshot import CHANGE, POLICY, key_of, snapshots
from quotas.models import Change, Limit
from quotas.models.change import ChangeState
from quotas.policies.limit_codec import row_stored, stored_of_fields
from quotas.policies.spec import PAST_GENERATIONS


def end_change(opened: Draft, row: Change, state: ChangeState) -> None:
    """Promoted or dropped; whoever calls sees to the policies."""
    opened.touch(key_of(CHANGE, row.pk))
    row.state, row.staged, row.problem = state, None, ""
    row.end_author, row.end_reason, row.end_revision_id = opened.author, opened.reason, opened.number
    row.save()


def resume_change(opened: Draft, row: Change, state: Mapping[str, Any]) -> None:
    """By a rollback, after the policies: the trial goes on as it was. One that was to end by itself no longer is."""
    opened.touch(key_of(CHANGE, row.pk))
    if "share" in state:
        row.state, row.share = ChangeState.CANARY, state["share"]
    else:
        row.state, row.staged = ChangeState.SHADOW, snapshots(key_of(POLICY, name) for name in row.policies)
    row.end_author = row.end_reason = ""
    row.end_revision_id = None
    row.save()


def remember_canary(opened: Draft, row: Change) -> None:
    """The tenants it had go back to the live limits, which must know what they come from to carry state over."""
    for name, state in row.policies.items():
        for limit in Limit.objects.filter(policy__name=name).select_related("name"):
            fields = state["limits"].get(limit.name.name) if state else None
            if fields is not None:
                _remember(
                    opened, limit, {**stored_of_fields(fields), "revision": row.start_revision_id, "carry": row.carry}
                )


def _remember(opened: Draft, limit: Limit, tried: Mapping[str, Any]) -> None:
    live = row_stored(limit)
    if all(tried[field] == value for field, value in live.items()):
        return
    former = {**live, "revision": limit.changed_revision_id, "carry": limit.carry}
    limit.past = [tried, former, *limit.past][:PAST_GENERATIONS]
    limit.changed_revision_id, limit.carry = opened.number, "keep"
    limit.save(update_fields=["past", "changed_revision", "carry"])
