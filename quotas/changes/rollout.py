"""The life of a change: proposed, on trial in shadow or as a canary, or scheduled; then promoted or dropped.

This is the state machine. What a trial writes into policies is in `quotas.changes.trial_policies`, the promotion and
its guard in `quotas.changes.promotion`, what a trial has shown in `quotas.trials`. A recommendation has no states of
its own once it is approved: it shows those of its change (`quotas.changes.recommended`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import Any, Literal, Unpack

from django.utils import timezone

from headroom_edge.algorithms.base import shown
from quotas.changes.approval import approve, check_approved
from quotas.changes.commit import Unchanged, commit, file_change, judge
from quotas.changes.draft import Permits, Proposal, draft
from quotas.changes.emergency import check_may_declare, note_skipped
from quotas.changes.freeze import Frozen, freezes_active, pass_freezes
from quotas.changes.guard import ANYBODY, check_below, check_cuts
from quotas.changes.promotion import change_promote, judged_promotion, spared_tenants
from quotas.changes.recommended import follow
from quotas.changes.restore import end_change
from quotas.changes.snapshot import CHANGE, key_of
from quotas.changes.trial_policies import check_base, check_canary, find_active, stage_shadow, unstage
from quotas.changes.trial_rule import CANARY_FOR, SHADOW_FOR, TrialRule, apply_rule
from quotas.changes.turn import Busy, turn
from quotas.changes.two_people import check_two, objection
from quotas.errors import Refused, author_and_reason, check_moment, refuse
from quotas.models import AuditEvent, Change
from quotas.models.change import ChangeState
from quotas.policies.spec import CANARY_PARTS
from tenants.history import acting
from tenants.identity import Actor, actor_of

Mode = Literal["shadow", "scheduled", "canary"]
MODES: tuple[Mode, ...] = ("shadow", "scheduled", "canary")


def change_propose(edit: Callable[..., object], *, author: str, reason: str, **arguments: Any) -> Change:
    """Files what `edit`, a service function, would write with these arguments.

    That needs no force, and accepts no cut: promoting the change does.
    """
    return _propose(edit, actor_of(author), reason, arguments)


def _propose(edit: Callable[..., object], author: Actor, reason: str, arguments: Mapping[str, Any]) -> Change:
    outcome = commit(partial(edit, author=author.name, reason=reason, force=True, **arguments), "dry_run")
    if isinstance(outcome, Unchanged):
        raise refuse("change", "nothing", "no changes; there is nothing to propose")
    return file_change(replace(outcome.proposal, force=False), author)


def change_agree(
    edit: Callable[..., object], *, askers: Sequence[Actor], why: str, approver: Actor, reason: str, **arguments: Any
) -> Change:
    """Files an edit that some asked for and somebody else grants, approved; it can be started or promoted.

    The first of the askers is its author.
    """
    for asker in askers:
        check_two(asker=asker, approver=approver)
    change = _propose(edit, askers[0], why, arguments)
    if all(objection(asker=asker, approver=approver) is None for asker in askers):
        approve(change.pk, approver, reason)
    return change


def change_accept_cuts(row: Change) -> None:
    """Whoever approved the change has seen its impact: promoting it may cut that much, and nobody else."""
    impact = row.impact
    names = [below["tenant"] for below in impact["below"]]
    row.force = bool(impact["cut_count"] or impact["unenforced"])
    row.accepted = names if impact["below_count"] == len(names) else [ANYBODY]
    row.save(update_fields=["force", "accepted"])


def change_start(
    *,
    change: int,
    mode: Mode,
    author: str,
    reason: str,
    at: datetime | None = None,
    share_percent: float | None = None,
    grandfather: Sequence[str] = (),
    accept: Collection[str] = (),
    rule: TrialRule | None = None,
    **permits: Unpack[Permits],
) -> Change:
    """In shadow, scheduled `at`, or as a canary for a share of the tenants; call it again to change the share.

    `grandfather`: the tenants that a scheduled change leaves as they are; `*`: all that it would hurt.
    `accept`: those that a scheduled change or a canary may cut below their peak; force alone does not cover them.
    `rule`: of its trial.
    """
    with turn():
        row = _to_start(change, mode)
        apply_rule(row, rule or TrialRule())
        if mode == "shadow":
            _start_shadow(row, author, reason)
        elif mode == "canary":
            canary = partial(_write_canary, row.pk, rule or TrialRule(), _share(share_percent), author, reason)
            row = _start_canary(row, canary, accept, permits)
        else:
            spared = spared_tenants(grandfather)
            _schedule(row, _due(at), spared, accept, author_and_reason(author, reason), permits)
        follow(row)
        return row


def change_drop(*, change: int, author: str, reason: str) -> Change:
    """A trial ends at once and without force: its tenants get the live limits back."""
    with draft(action="change_drop", author=author, reason=reason, force=True) as opened:
        row = find_active(change)
        opened.touch(key_of(CHANGE, row.pk))
        is_tried = opened.before[key_of(CHANGE, row.pk)] is not None
        unstage(opened, row)
        end_change(opened, row, ChangeState.DROPPED)
        if not is_tried:
            Change.objects.filter(pk=row.pk).update(end_revision=None)
    row.refresh_from_db()
    return row


def changes_apply_due(now: datetime | None = None) -> int:
    """Promotes the scheduled changes that are due, each checked again; returns how many were due.

    While a freeze is active they wait, whoever scheduled them.
    """
    if freezes_active(now).exists():
        return 0
    due = Change.objects.filter(state=ChangeState.SCHEDULED, at__lte=now or timezone.now()).order_by("at", "id")
    rows = list(due.values_list("pk", "starter", "reason"))
    for number, starter, reason in rows:
        try:
            change_promote(change=number, author=starter, reason=reason)
        except (Busy, Frozen):
            continue  # still due at the next call
        except Refused as refused:
            _block(number, str(refused))
    return len(rows)


def _block(number: int, problem: str) -> None:
    with turn():
        row = Change.objects.get(pk=number)
        if row.state != ChangeState.SCHEDULED:  # another scheduler was quicker
            return
        row.state, row.problem = ChangeState.BLOCKED, problem
        row.save(update_fields=["state", "problem"])
        follow(row)
        AuditEvent.objects.create(kind="change_blocked", detail={"change": number, "problem": problem})


def _to_start(number: int, mode: Mode) -> Change:
    row = find_active(number)
    if mode not in MODES:
        raise refuse("mode", "mode", f"mode must be one of {', '.join(MODES)}, not {shown(mode)}")
    if row.state == ChangeState.CANARY and mode != "canary":
        raise refuse("mode", "in_use", f"{row} has a canary; give it another share, promote it or drop it")
    if row.staged is not None and mode == "shadow":
        raise refuse("mode", "in_use", f"{row} is already in shadow; start a canary, schedule, promote or drop it")
    check_base(row)
    return row


def _start_shadow(row: Change, author: str, reason: str) -> None:
    with draft(action="change_shadow", author=author, reason=reason, is_unnoticed=True) as opened:
        opened.touch(key_of(CHANGE, row.pk))
        stage_shadow(opened, row)
        row.state, row.starter, row.start_revision_id, row.problem = (
            ChangeState.SHADOW,
            opened.author,
            opened.number,
            "",
        )
        row.trial_ends = row.trial_ends or timezone.now() + SHADOW_FOR
        row.save()


def _start_canary(row: Change, write: Callable[..., Change], accept: Collection[str], permits: Permits) -> Change:
    """As strict as a promotion: who of its share is left less than they ask for must be accepted by name."""
    check_approved(row, emergency=permits.get("emergency", False))
    check_canary(row)
    forced: Permits = {**permits, "force": True}
    found = judge(partial(write, forced), to_write=True)
    if found is not None:
        check_cuts(found.impact, force=permits.get("force", False))
        check_below(found.impact, {*row.accepted, *accept})
    return write(forced, judged=found)


def _write_canary(
    number: int, rule: TrialRule, share: int, author: str, reason: str, permits: Permits, judged: Proposal | None = None
) -> Change:
    row = find_active(number)
    apply_rule(row, rule)
    with draft(
        action="change_canary", author=author, reason=reason, is_approved=True, judged=judged, **permits
    ) as opened:
        opened.touch(key_of(CHANGE, row.pk))
        if row.state != ChangeState.CANARY:
            unstage(opened, row)
            row.state, row.start_revision_id = ChangeState.CANARY, opened.number
            row.trial_ends = timezone.now() + CANARY_FOR
        row.share, row.starter, row.problem = share, opened.author, ""
        row.save()
    return row


def _schedule(
    row: Change, at: datetime, spared: list[str], accept: Collection[str], who: tuple[str, str], permits: Permits
) -> None:
    """Nothing is enforced yet; the impact is checked now, and again when the change is due."""
    author, reason = who
    emergency = permits.get("emergency", False)
    if emergency:
        check_may_declare()
    passed = pass_freezes(author=author, action="change_schedule", emergency=emergency)
    passed.record(action="change_schedule", author=author, reason=reason, what=str(row))
    check_approved(row, emergency=emergency or permits.get("by_design", False))
    impact = judged_promotion(row, author=author, reason=reason, spared=spared).impact
    check_cuts(impact, force=permits.get("force", False))
    check_below(impact, accept)
    if emergency:
        note_skipped(
            action="change_schedule", author=author, reason=reason, what=str(row), is_grave=passed.by_emergency
        )
    with acting(author=author, action="change_schedule", reason=reason):
        row.state, row.at, row.grandfather, row.starter, row.problem = ChangeState.SCHEDULED, at, spared, author, ""
        row.impact, row.force, row.emergency = asdict(impact), impact.needs_force, emergency or row.emergency
        row.accepted, row.grandfather_days = sorted(accept), None
        row.save()


def _share(percent: float | None) -> int:
    share = round((percent or 0) * CANARY_PARTS / 100)
    if not 0 < share < CANARY_PARTS:
        raise refuse("share_percent", "range", "share_percent must be from 0.1 to 99.9; promote the change for all")
    return share


def _due(at: datetime | None) -> datetime:
    if at is None:
        raise refuse("at", "missing", "at is missing; say when it is due, like 2030-01-31T18:00:00Z")
    check_moment("at", at)
    if at <= timezone.now():
        raise refuse("at", "past", "at is in the past; choose a later time, or promote the change now")
    return at
