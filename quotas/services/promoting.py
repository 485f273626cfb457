"""How a change becomes what is enforced, rehearsed or for good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import cast

from quotas.errors import Refused, refuse
from quotas.models import Change
from quotas.models.change import State
from quotas.policies.spec import Carry
from quotas.services.applying import apply_states
from quotas.services.drafts import draft
from quotas.services.guard import Impact
from quotas.services.permits import Permits, Waiting
from quotas.services.snapshots import CHANGE, key_of, snapshots
from quotas.services.sparing import spare
from quotas.services.trials import end_change


def find_active(number: int) -> Change:
    row = Change.objects.filter(pk=number).first()
    if row is None:
        raise refuse("change", "unknown", f"there is no change {number}; correct the number")
    if row.is_over:
        raise refuse("change", "over", f"{row} was {row.state} already; propose a new one")
    return row


def check_base(row: Change) -> None:
    """What it starts from must still be so: else it would undo what others have done meanwhile."""
    expected = {**row.before, **(row.staged or {})}
    live = snapshots(expected)
    moved = next((key for key, state in expected.items() if live[key] != state), None)
    if moved is not None:
        message = f"{moved} was changed since {row} was filed; drop it, and propose it again"
        raise refuse("change", "touched_since", message)


def rehearse(number: int, *, author: str, reason: str, spared: Sequence[str]) -> Impact:
    """Whom promoting it now would hurt."""
    try:
        promote(number, author=author, reason=reason, spared=spared, impact=Impact(), force=True, propose=True)
    except Waiting as waiting:
        return waiting.proposal.impact
    raise _nothing(number)


def promote(
    number: int,
    *,
    author: str,
    reason: str,
    spared: Sequence[str],
    impact: Impact,
    force: bool,
    propose: bool = False,
    emergency: bool = False,
) -> Change:
    """Approved and weighed by the caller."""
    row = find_active(number)
    check_base(row)
    permits: Permits = {"force": force, "propose": propose, "emergency": emergency}
    carry = cast("Carry", row.carry)
    with draft(
        action="change_promote", author=author, reason=reason, carry=carry, is_approved=True, **permits
    ) as opened:
        opened.touch(key_of(CHANGE, row.pk))
        apply_states(opened, row.after)
        spare(opened, spared)
        row.impact, row.grandfather = asdict(impact), list(spared)
        end_change(opened, row, State.PROMOTED)
    if opened.revision is None:
        raise _nothing(number)
    return row


def _nothing(number: int) -> Refused:
    return refuse("change", "nothing", f"everything is so already; drop change {number}")
