"""Approvals of changes that wait for a second pair of eyes, and what one asks for and another grants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import transaction

from quotas.changes.draft import said
from quotas.changes.rollout import change_propose
from quotas.errors import refuse
from quotas.models import Approval, Change
from tenants.history import acting


def change_approve(*, change: int, approver: str, reason: str) -> Approval:
    """Once approved, it may be started and promoted by anybody who may do that."""
    approver, reason = said(approver, reason)
    with acting(author=approver, action="change_approve"), transaction.atomic():
        row = Change.objects.select_for_update().filter(pk=change).first()
        if row is None:
            raise refuse("change", "unknown", f"there is no change {change}; correct the number")
        _check_approver(row, approver)
        return Approval.objects.create(change=row, approver=approver, reason=reason)


def _check_approver(row: Change, approver: str) -> None:
    if row.is_over:
        raise refuse("change", "over", f"{row} was {row.state} already; there is nothing to approve")
    if approver.casefold() == row.author.casefold():
        raise refuse("approver", "author", f"{approver} is the author of {row}; somebody else has to approve it")
    if row.approvals.filter(approver=approver).exists():
        raise refuse("approver", "taken", f"{approver} has approved {row} already; once is enough")


def check_two(*, asker: str, approver: str) -> None:
    """Under four eyes nobody grants what they asked for themselves."""
    if settings.HEADROOM_FOUR_EYES and _is_one(asker, approver):
        raise refuse("approver", "author", f"{approver} wrote this; under four eyes somebody else has to approve it")


def change_agree(
    edit: Callable[..., object], *, asker: str, why: str, approver: str, reason: str, **arguments: Any
) -> Change:
    """`edit`: a service function with its arguments, filed with who asked for it and why; to be started or promoted."""
    check_two(asker=asker, approver=approver)
    change = change_propose(edit, author=asker, reason=why, **arguments)
    if not _is_one(asker, approver):
        change_approve(change=change.pk, approver=approver, reason=reason)
    return change


def _is_one(asker: str, approver: str) -> bool:
    return asker.strip().casefold() == approver.strip().casefold()
