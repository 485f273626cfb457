"""What a change does to the configuration: on trial in shadow or as a canary, promoted for all, or taken back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from quotas.changes.draft import Permits, Proposal, draft
from quotas.changes.grandfathering import spare
from quotas.changes.guard import Impact
from quotas.changes.restore import end_change, remember_canary, restore
from quotas.changes.snapshot import CHANGE, POLICY, TENANT, TIER, Draft, State, key_of, snapshots, split_key
from quotas.errors import Refused, refuse
from quotas.lookups import find_active_tenants, find_numbered, find_tier
from quotas.models import Change, Limit
from quotas.models.change import ChangeState
from quotas.policies.carry_over import hand_over_tier
from quotas.policies.limit_codec import CANDIDATE, row_stored, stored_of_fields
from quotas.policies.spec import Carry
from quotas.policies.tier import DeclaredTier
from quotas.tenants import write_tier

ENFORCE, SHADOW, OFF = "enforce", "shadow", "off"


def find_active(number: int) -> Change:
    row = find_numbered(Change.objects.all(), number, "change")
    if row.is_over:
        raise refuse("change", "over", f"{row} was already {row.state}; propose a new one")
    return row


def check_base(row: Change) -> None:
    """What the change starts from must not have changed, or promoting it would undo the work of others."""
    expected = {**row.before, **(row.staged or {})}
    live = snapshots(expected)
    moved = next((key for key, state in expected.items() if live[key] != state), None)
    if moved is not None:
        message = f"{moved} was changed since {row} was filed; drop it, and propose it again"
        raise refuse("change", "touched_since", message)


def stage_shadow(opened: Draft, row: Change) -> None:
    """Changed limits become candidates beside the live ones; new limits are added in shadow mode."""
    _check_policies_only(row, "be tried in shadow")
    staged = {key: _shadowed(row.before[key], state) for key, state in row.after.items()}
    wanted = {key: state for key, state in staged.items() if state is not None and state != row.before[key]}
    if not wanted:
        message = f"{row} only removes limits, so there is nothing to judge in shadow; schedule it instead"
        raise refuse("mode", "nothing", message)
    restore(opened, wanted)
    row.staged = snapshots(row.after)


def check_canary(row: Change) -> None:
    _check_policies_only(row, "have a canary")
    for key in row.touched:
        places = {_place(state) for state in (row.before[key], row.after[key]) if state}
        if len(places) != 1 or not min(places)[0]:
            message = f"{key} does not belong to a tier, so it cannot have a canary; schedule it instead"
            raise refuse("mode", "canary", message)
    others = Change.objects.filter(state=ChangeState.CANARY).exclude(pk=row.pk)
    taken = next((other for other in others if set(other.tiers) & set(row.tiers)), None)
    if taken is not None:
        tier = min(set(taken.tiers) & set(row.tiers))
        raise refuse("mode", "in_use", f"tier {tier} has the canary of {taken}; promote or drop that first")


def unstage(opened: Draft, row: Change) -> None:
    """Ends the trial. Nobody else may edit its policies meanwhile, so they go back to what they were."""
    if row.staged is not None:
        restore(opened, {key: row.before[key] for key in row.staged})
        row.staged = None
    if row.state == ChangeState.CANARY:
        remember_canary(opened, row)


def promote(
    number: int,
    *,
    author: str,
    reason: str,
    spared: Sequence[str],
    judged: Proposal | None = None,
    emergency: bool = False,
) -> Change:
    """Writes the change for all, whatever it cuts: the caller has checked its approval and its impact.

    `judged`: what a dry run of it found. Without, it is such a dry run.
    """
    row = find_active(number)
    check_base(row)
    permits: Permits = {"force": True, "emergency": emergency}
    carry = cast("Carry", row.carry)
    with draft(
        action="change_promote",
        author=author,
        reason=reason,
        carry=carry,
        is_approved=True,
        judged=judged,
        **permits,
    ) as opened:
        opened.touch(key_of(CHANGE, row.pk))
        _apply_states(opened, row.after)
        spare(opened, spared)
        row.impact, row.grandfather = asdict(judged.impact if judged else Impact()), list(spared)
        end_change(opened, row, ChangeState.PROMOTED)
    if opened.revision is None:
        raise nothing_to_promote(number)
    return row


def nothing_to_promote(number: int) -> Refused:
    return refuse("change", "nothing", f"change {number} would change nothing any more; drop it")


def _apply_states(opened: Draft, states: Mapping[str, State]) -> None:
    """Creates tiers and moves tenants too. A limit that becomes its candidate takes over the candidate's live state."""
    opened.touch(*states)
    now = snapshots(states)
    for key, state in states.items():
        if split_key(key)[0] == TIER and state is not None and now[key] is None:
            write_tier(opened, DeclaredTier(split_key(key)[1]))  # `restore` writes the rest of its state
    candidates = _candidates(states)
    restore(opened, states)
    _move(opened, states)
    _adopt(opened, candidates)


def _move(opened: Draft, states: Mapping[str, State]) -> None:
    wanted: dict[str, list[str]] = defaultdict(list)
    for key, state in states.items():
        if split_key(key)[0] == TENANT and state is not None:
            wanted[state["tier"]].append(split_key(key)[1])
    for tier, names in sorted(wanted.items()):
        target = find_tier(tier)
        hand_over_tier(opened, [row for row in find_active_tenants(names) if row.tier_id != target.pk], target)


def _candidates(states: Mapping[str, State]) -> dict[int, Any]:
    names = [split_key(key)[1] for key in states if split_key(key)[0] == POLICY]
    rows = Limit.objects.filter(policy__name__in=names).exclude(candidate=None)
    return dict(rows.values_list("pk", "candidate"))


def _adopt(opened: Draft, candidates: Mapping[int, Any]) -> None:
    for row in Limit.objects.filter(pk__in=candidates, changed_revision_id=opened.number):
        if candidates[row.pk] == row_stored(row):
            row.adopts_candidate = True
            row.save(update_fields=["adopts_candidate"])


def _check_policies_only(row: Change, what: str) -> None:
    other = next((key for key in row.touched if split_key(key)[0] != POLICY), None)
    if other is not None:
        raise refuse("mode", "policies_only", f"{row} changes {other}, and only policies can {what}; schedule it")


def _place(state: dict[str, Any]) -> tuple[str, str]:
    return state["tier"] or "", state["endpoint"]


def _shadowed(live: dict[str, Any] | None, wanted: dict[str, Any] | None) -> dict[str, Any] | None:
    """The live policy with the wanted limits beside it; None: there is nothing to show in shadow."""
    if wanted is None:
        return live
    before = live["limits"] if live else {}
    tried = {name: _beside(name, before.get(name), fields) for name, fields in wanted["limits"].items()}
    limits = {**before, **{name: fields for name, fields in tried.items() if fields is not None}}
    return {**wanted, "limits": limits} if limits else None


def _beside(name: str, live: dict[str, Any] | None, wanted: dict[str, Any]) -> dict[str, Any] | None:
    """The limit while it is in shadow; None: it stays as it is live."""
    if wanted["mode"] == OFF or (wanted["mode"] == SHADOW and live):
        return None
    if live is None or live["mode"] != ENFORCE:
        return {**wanted, "mode": SHADOW}
    if (wanted["subject"], wanted["unit"]) != (live["subject"], live["unit"]):
        message = f"limit {name} would count something else, which cannot run beside the live one; use a canary instead"
        raise refuse("mode", "incomparable", message)
    if stored_of_fields(wanted) == stored_of_fields(live):
        return None
    return {**live, CANDIDATE: stored_of_fields(wanted)}
