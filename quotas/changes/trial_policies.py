"""What a change writes into policies while it is on trial, and how that is taken back.

In shadow its limits stand beside the live ones; a canary is written nowhere, and compiled from the change itself.
Which state a change is in, and who may move it to which, is decided in `quotas.changes.rollout`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from quotas.changes.restore import remember_canary, restore
from quotas.changes.snapshot import POLICY, Draft, key_of, snapshots, split_key
from quotas.errors import refuse
from quotas.lookups import find_numbered
from quotas.models import Change
from quotas.models.change import ChangeState
from quotas.policies.limit_codec import CANDIDATE, stored_of_fields

ENFORCE, SHADOW, OFF = "enforce", "shadow", "off"


@dataclass(frozen=True, slots=True)
class TriedLimit:
    """A limit of a change, as its shadow counts it."""

    policy: str
    tier: str | None
    tenant: str | None
    endpoint: str
    limit: str
    role: Literal["candidate", "shadow"]  # beside a live limit, or new
    live: dict[str, Any] | None  # fields; None: there is no such limit yet
    wanted: dict[str, Any]


def tried_limits(row: Change) -> Iterator[TriedLimit]:
    """What a shadow of the change counts, has counted or would count."""
    for name, wanted in row.policies.items():
        live = row.before[key_of(POLICY, name)]
        for limit, fields in (wanted or {"limits": {}})["limits"].items():
            before = live["limits"].get(limit) if live else None
            beside = None if _is_incomparable(before, fields) else _beside(limit, before, fields)
            if beside is not None and wanted is not None:
                role: Literal["candidate", "shadow"] = "candidate" if beside.get(CANDIDATE) else "shadow"
                owner = (wanted["tier"], wanted["tenant"], wanted["endpoint"])
                yield TriedLimit(name, *owner, limit, role, before, fields)


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
    if _is_incomparable(live, wanted):
        message = f"limit {name} would count something else, which cannot run beside the live one; use a canary instead"
        raise refuse("mode", "incomparable", message)
    if stored_of_fields(wanted) == stored_of_fields(live):
        return None
    return {**live, CANDIDATE: stored_of_fields(wanted)}


def _is_incomparable(live: dict[str, Any] | None, wanted: dict[str, Any]) -> bool:
    """Whether the two count different things, so that one cannot stand beside the other."""
    if live is None or live["mode"] != ENFORCE or wanted["mode"] != ENFORCE:
        return False
    return (wanted["subject"], wanted["unit"]) != (live["subject"], live["unit"])
