"""Approvals of changes that wait for a second pair of eyes."""

from __future__ import annotations

from django.db import transaction

from quotas.errors import refuse
from quotas.models import Approval, Change
from quotas.services.drafts import said
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
