"""How a change becomes what is enforced, rehearsed or for good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from quotas.changes.draft import Draft, Permits, Waiting, draft
from quotas.changes.grandfathering import spare
from quotas.changes.guard import Impact
from quotas.changes.restore import restore
from quotas.changes.snapshot import CHANGE, POLICY, TENANT, TIER, State, key_of, snapshots, split_key
from quotas.changes.trial import end_change
from quotas.errors import Refused, refuse
from quotas.lookups import find_tenant, find_tier
from quotas.models import Change, Limit
from quotas.models.change import ChangeState
from quotas.policies.carry_over import hand_over_tier
from quotas.policies.limit_codec import row_stored
from quotas.policies.spec import Carry
from quotas.tenants import write_tier


def apply_states(opened: Draft, states: Mapping[str, State]) -> None:
    """Memberships included. A limit that becomes what its candidate was takes over the candidate's state."""
    opened.touch(*states)
    now = snapshots(states)
    for key, state in states.items():
        if split_key(key)[0] == TIER and state is not None and now[key] is None:
            write_tier(opened, split_key(key)[1])
    candidates = _candidates(states)
    restore(opened, states)
    for key, state in states.items():
        if split_key(key)[0] == TENANT and state is not None:
            _move(opened, split_key(key)[1], state["tier"])
    _adopt(opened, candidates)


def _move(opened: Draft, name: str, tier: str) -> None:
    tenant = find_tenant(name)
    if tenant.tier.name != tier:
        hand_over_tier(opened, tenant, find_tier(tier))


def _candidates(states: Mapping[str, State]) -> dict[int, Any]:
    names = [split_key(key)[1] for key in states if split_key(key)[0] == POLICY]
    rows = Limit.objects.filter(policy__name__in=names).exclude(candidate=None)
    return dict(rows.values_list("pk", "candidate"))


def _adopt(opened: Draft, candidates: Mapping[int, Any]) -> None:
    for row in Limit.objects.filter(pk__in=candidates, changed_revision_id=opened.number):
        if candidates[row.pk] == row_stored(row):
            row.adopts_candidate = True
            row.save(update_fields=["adopts_candidate"])


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
        end_change(opened, row, ChangeState.PROMOTED)
    if opened.revision is None:
        raise _nothing(number)
    return row


def _nothing(number: int) -> Refused:
    return refuse("change", "nothing", f"everything is so already; drop change {number}")
