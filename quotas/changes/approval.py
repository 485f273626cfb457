"""Four eyes: with HEADROOM_FOUR_EYES, a change of enforced limits waits for the approval of somebody else.

Some actions never wait, because they deny nobody more or must not be delayed: new tenants, suspending and resuming a
tenant, anything in shadow, and the end of a trial. In an emergency nothing waits, and the audit records that.
"""

from __future__ import annotations

from django.conf import settings
from django.db import transaction

from quotas.errors import author_and_reason, refuse
from quotas.models import Approval, AuditEvent, Change
from tenants.history import acting

NEVER_WAITS = frozenset(
    {
        "tier_create",
        "tenant_create",
        "tenant_update",
        "tenant_suspend",
        "tenant_resume",
        "candidate_set",
        "change_shadow",
        "change_drop",
    }
)


def has_to_wait(action: str, *, emergency: bool) -> bool:
    """Whether an edit has to be filed as a change first, to be approved."""
    is_wanted: bool = settings.HEADROOM_FOUR_EYES
    return is_wanted and action not in NEVER_WAITS and not emergency


def check_approved(row: Change, *, emergency: bool) -> None:
    if not settings.HEADROOM_FOUR_EYES or emergency or row.emergency or row.approvals.exists():
        return
    message = f"{row} waits for an approver other than {row.author}; have it approved, or declare an emergency"
    raise refuse("change", "approval", message)


def check_two(*, asker: str, approver: str) -> None:
    """Under four eyes nobody approves their own request."""
    if settings.HEADROOM_FOUR_EYES and is_same_person(asker, approver):
        raise refuse("approver", "author", f"{approver} is the author; under four eyes somebody else has to approve it")


def is_same_person(one: str, other: str) -> bool:
    return one.strip().casefold() == other.strip().casefold()


def note_emergency(*, action: str, author: str, reason: str, what: str) -> None:
    """Records in the audit that an approval was skipped, where one was required."""
    if settings.HEADROOM_FOUR_EYES:
        detail = {"action": action, "author": author, "reason": reason, "what": what}
        AuditEvent.objects.create(kind="approval_skipped", detail=detail)


def change_approve(*, change: int, approver: str, reason: str) -> Approval:
    """Once a change is approved, anybody with the role for it may start and promote it."""
    approver, reason = author_and_reason(approver, reason)
    with acting(author=approver, action="change_approve"), transaction.atomic():
        row = Change.objects.select_for_update().filter(pk=change).first()
        if row is None:
            raise refuse("change", "unknown", f"there is no change {change}; correct the number")
        _check_approver(row, approver)
        return Approval.objects.create(change=row, approver=approver, reason=reason)


def _check_approver(row: Change, approver: str) -> None:
    if row.is_over:
        raise refuse("change", "over", f"{row} was already {row.state}; there is nothing to approve")
    if is_same_person(approver, row.author):
        raise refuse("approver", "author", f"{approver} is the author of {row}; somebody else has to approve it")
    if row.approvals.filter(approver=approver).exists():
        raise refuse("approver", "taken", f"{approver} has already approved {row}; approving it once is enough")
