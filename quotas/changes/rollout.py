"""Changes in stages: proposed, tried out in shadow or by a canary, or scheduled; then promoted or dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, Literal, Unpack

from django.db import transaction
from django.utils import timezone

from headroom_edge.algorithms.base import shown
from quotas.changes.draft import Permits, Proposal, Waiting, draft, said, take_turn
from quotas.changes.four_eyes import check_approved, note_emergency
from quotas.changes.grandfathering import ALL_HURT
from quotas.changes.guard import Impact, WorstCut, check_accepted, check_cuts
from quotas.changes.promotion import check_base, find_active, promote, rehearse
from quotas.changes.snapshot import CHANGE, key_of
from quotas.changes.staging import check_canary, stage_shadow, unstage
from quotas.changes.trial import end_change
from quotas.errors import Refused, check_moment, refuse
from quotas.lookups import find_tenant
from quotas.models import AuditEvent, Change
from quotas.models.change import ChangeState
from quotas.policies.spec import CANARY_PARTS
from tenants.history import acting

Mode = Literal["shadow", "scheduled", "canary"]
MODES: tuple[Mode, ...] = ("shadow", "scheduled", "canary")


def change_propose(edit: Callable[..., object], *, author: str, reason: str, **arguments: Any) -> Change:
    """`edit`: a service function, with its arguments. It writes nothing; what it would have written is filed."""
    try:
        edit(author=author, reason=reason, force=True, propose=True, **arguments)
    except Waiting as waiting:
        return change_file(replace(waiting.proposal, force=False))
    raise refuse("change", "nothing", "everything is so already; there is nothing to propose")


def change_file(proposal: Proposal) -> Change:
    """Keeps what a `Waiting` came with, to be approved, started, promoted or dropped."""
    with acting(author=proposal.author, action="change_file"), transaction.atomic():
        return Change.objects.create(
            action=proposal.action,
            author=proposal.author,
            reason=proposal.reason,
            carry=proposal.carry,
            touched=list(proposal.touched),
            before=proposal.before,
            after=proposal.after,
            impact=asdict(proposal.impact),
            force=proposal.force,
        )


def change_impact(*, change: int, author: str, grandfather: Sequence[str] = ()) -> Impact:
    """Whom promoting it now would hurt; nothing is written."""
    with transaction.atomic():
        take_turn()
        return rehearse(change, author=author, reason="to see whom it hurts", spared=_spared(grandfather))


def change_start(
    *,
    change: int,
    mode: Mode,
    author: str,
    reason: str,
    at: datetime | None = None,
    share_percent: float | None = None,
    grandfather: Sequence[str] = (),
    **permits: Unpack[Permits],
) -> Change:
    """In shadow, scheduled `at`, or as a canary for a share of the tenants, which can be changed in the same way.

    `grandfather`: the tenants that a scheduled change leaves as they are; `*`: all that it would hurt.
    """
    with transaction.atomic():
        take_turn()
        row = _to_start(change, mode)
        if mode == "shadow":
            _start_shadow(row, author, reason)
        elif mode == "canary":
            _start_canary(row, _share(share_percent), author, reason, permits)
        else:
            _schedule(row, _due(at), _spared(grandfather), said(author, reason), permits)
        return row


def change_promote(
    *, change: int, author: str, reason: str, grandfather: Sequence[str] | None = None, **permits: Unpack[Permits]
) -> Change:
    """It holds for all from now on. Cuts that were accepted when it was scheduled need no new force."""
    force, emergency = permits.get("force", False), permits.get("emergency", False)
    with transaction.atomic():
        take_turn()
        row = find_active(change)
        check_approved(row, emergency=emergency)
        spared = row.grandfather if grandfather is None else _spared(grandfather)
        impact = rehearse(change, author=author, reason=reason, spared=spared)
        if row.force and not force:
            check_accepted(impact, [WorstCut(**worst) for worst in row.impact["worst"]])
        else:
            check_cuts(impact, force=force)
        return promote(
            change, author=author, reason=reason, spared=spared, impact=impact, force=True, emergency=emergency
        )


def change_drop(*, change: int, author: str, reason: str) -> Change:
    """What was tried out ends at once and without force: those who had it are again as the others are."""
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
    """Promotes what is scheduled and due, each checked again; how many were."""
    due = Change.objects.filter(state=ChangeState.SCHEDULED, at__lte=now or timezone.now()).order_by("at", "id")
    rows = list(due.values_list("pk", "starter", "reason"))
    for number, starter, reason in rows:
        try:
            change_promote(change=number, author=starter, reason=reason)
        except Refused as refused:
            _block(number, str(refused))
    return len(rows)


def _block(number: int, problem: str) -> None:
    with transaction.atomic():
        take_turn()
        row = Change.objects.get(pk=number)
        if row.state != ChangeState.SCHEDULED:  # another scheduler was quicker
            return
        row.state, row.problem = ChangeState.BLOCKED, problem
        row.save(update_fields=["state", "problem"])
        AuditEvent.objects.create(kind="change_blocked", detail={"change": number, "problem": problem})


def _to_start(number: int, mode: Mode) -> Change:
    row = find_active(number)
    if mode not in MODES:
        raise refuse("mode", "mode", f"mode must be one of {', '.join(MODES)}, not {shown(mode)}")
    if row.state == ChangeState.CANARY and mode != "canary":
        raise refuse("mode", "in_use", f"{row} has a canary; give it another share, promote it or drop it")
    if row.staged is not None and mode == "shadow":
        raise refuse("mode", "in_use", f"{row} stands in shadow already; start a canary, schedule, promote or drop it")
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
        row.save()


def _start_canary(row: Change, share: int, author: str, reason: str, permits: Permits) -> None:
    check_approved(row, emergency=permits.get("emergency", False))
    check_canary(row)
    with draft(action="change_canary", author=author, reason=reason, is_approved=True, **permits) as opened:
        opened.touch(key_of(CHANGE, row.pk))
        if row.state != ChangeState.CANARY:
            unstage(opened, row)
            row.state, row.start_revision_id = ChangeState.CANARY, opened.number
        row.share, row.starter, row.problem = share, opened.author, ""
        row.save()


def _schedule(row: Change, at: datetime, spared: list[str], who: tuple[str, str], permits: Permits) -> None:
    """Writes nothing that is enforced; what it will do is rehearsed now, and again when it is due."""
    author, reason = who
    emergency = permits.get("emergency", False)
    check_approved(row, emergency=emergency)
    impact = rehearse(row.pk, author=author, reason=reason, spared=spared)
    check_cuts(impact, force=permits.get("force", False))
    if emergency:
        note_emergency(action="change_schedule", author=author, reason=reason, what=str(row))
    with acting(author=author, action="change_schedule", reason=reason):
        row.state, row.at, row.grandfather, row.starter, row.problem = ChangeState.SCHEDULED, at, spared, author, ""
        row.impact, row.force, row.emergency = asdict(impact), bool(impact.cuts), emergency or row.emergency
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


def _spared(names: Sequence[str]) -> list[str]:
    for name in names:
        if name != ALL_HURT:
            find_tenant(name)
    return sorted(set(names))
