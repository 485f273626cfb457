"""What a change can be tried out as: in shadow beside the live limits, or for a share of a tier's tenants."""

from __future__ import annotations

from typing import Any

from quotas.changes.draft import Draft
from quotas.changes.restore import restore
from quotas.changes.snapshot import POLICY, snapshots, split_key
from quotas.changes.trial import remember_canary
from quotas.errors import Refused, refuse
from quotas.models import Change
from quotas.models.change import ChangeState
from quotas.policies.limit_codec import CANDIDATE, stored_of_fields

ENFORCE, SHADOW, OFF = "enforce", "shadow", "off"


def stage_shadow(opened: Draft, row: Change) -> None:
    """Changed limits become candidates beside the live ones, new ones are added without being enforced."""
    _check_policies_only(row, "be tried in shadow")
    staged = {key: _shadowed(row.before[key], state) for key, state in row.after.items()}
    wanted = {key: state for key, state in staged.items() if state is not None and state != row.before[key]}
    if not wanted:
        raise refuse("mode", "nothing", f"{row} only takes away, so there is nothing to judge in shadow; schedule it")
    restore(opened, wanted)
    row.staged = snapshots(row.after)


def check_canary(row: Change) -> None:
    _check_policies_only(row, "have a canary")
    for key in row.touched:
        places = {_place(state) for state in (row.before[key], row.after[key]) if state}
        if len(places) != 1 or not min(places)[0]:
            raise refuse(
                "mode", "canary", f"{key} is not a tier's, so no share of its tenants can have it; schedule it"
            )
    others = Change.objects.filter(state=ChangeState.CANARY).exclude(pk=row.pk)
    taken = next((other for other in others if set(other.tiers) & set(row.tiers)), None)
    if taken is not None:
        tier = min(set(taken.tiers) & set(row.tiers))
        raise refuse("mode", "in_use", f"tier {tier} has the canary of {taken}; promote or drop that first")


def unstage(opened: Draft, row: Change) -> None:
    """Nobody else has edited its policies meanwhile, so they are again what they were."""
    if row.staged is not None:
        restore(opened, {key: row.before[key] for key in row.staged})
        row.staged = None
    if row.state == ChangeState.CANARY:
        remember_canary(opened, row)


def _check_policies_only(row: Change, what: str) -> None:
    other = next((key for key in row.touched if split_key(key)[0] != POLICY), None)
    if other is not None:
        raise refuse("mode", "policies_only", f"{row} changes {other}, and only policies can {what}; schedule it")


def _place(state: dict[str, Any]) -> tuple[str, str]:
    return state["tier"] or "", state["endpoint"]


def _shadowed(live: dict[str, Any] | None, wanted: dict[str, Any] | None) -> dict[str, Any] | None:
    """The live policy with what is wanted beside it; None: there is nothing to show beside it."""
    if wanted is None:
        return live
    before = live["limits"] if live else {}
    tried = {name: _beside(name, before.get(name), fields) for name, fields in wanted["limits"].items()}
    limits = {**before, **{name: fields for name, fields in tried.items() if fields is not None}}
    return {**wanted, "limits": limits} if limits else None


def _beside(name: str, live: dict[str, Any] | None, wanted: dict[str, Any]) -> dict[str, Any] | None:
    """None: as it is live."""
    if wanted["mode"] == OFF or (wanted["mode"] == SHADOW and live):
        return None
    if live is None or live["mode"] != ENFORCE:
        return {**wanted, "mode": SHADOW}
    if (wanted["subject"], wanted["unit"]) != (live["subject"], live["unit"]):
        raise _incomparable(name)
    if stored_of_fields(wanted) == stored_of_fields(live):
        return None
    return {**live, CANDIDATE: stored_of_fields(wanted)}


def _incomparable(name: str) -> Refused:
    message = f"limit {name} would count something else, which cannot run beside the live one; use a canary instead"
    return refuse("mode", "incomparable", message)
