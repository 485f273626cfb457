"""Four eyes: with HEADROOM_FOUR_EYES, a change of enforced limits waits for the approval of somebody else.

Some actions never wait, because they deny nobody more or must not be delayed: new tenants, suspending, resuming,
archiving and restoring a tenant, anything in shadow, and the end of a trial. In an emergency nothing waits, and the
audit records that.
"""

from __future__ import annotations

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from quotas.changes.freeze import NO_FREEZE, FreezePass, pass_freezes
from quotas.changes.two_people import objection
from quotas.errors import Refused, author_and_reason, refuse
from quotas.lookups import find_numbered
from quotas.models import Approval, Change
from tenants.history import acting
from tenants.identity import Actor, actor_of

NEVER_WAITS = frozenset(
    {
        "tier_create",
        "tier_duplicate",
        "tier_update",
        "tenant_create",
        "tenant_update",
        "tenant_suspend",
        "tenant_resume",
        "tenant_archive",
        "tenant_restore",
        "candidate_set",
        "change_shadow",
        "change_drop",
    }
)


def has_to_wait(action: str, *, emergency: bool) -> bool:
    """Whether an edit has to be filed as a change first, to be approved."""
    is_wanted: bool = settings.HEADROOM_FOUR_EYES
    return is_wanted and action not in NEVER_WAITS and not emergency


def waits_for_approver(row: Change) -> bool:
    is_wanted: bool = settings.HEADROOM_FOUR_EYES
    return is_wanted and not row.emergency and not row.approvals.exists()


def check_approved(row: Change, *, emergency: bool) -> None:
    if emergency or not waits_for_approver(row):
        return
    message = f"{row} waits for an approver other than {row.author}; have it approved, or declare an emergency"
    raise refuse("change", "approval", message)


def change_approve(*, change: int, approver: str, reason: str) -> Approval:
    """Once a change is approved, anybody with the role for it may start and promote it."""
    approver, reason = author_and_reason(approver, reason)
    return approve(change, actor_of(approver), reason, pass_freezes(author=approver, action="change_approve"))


def approve(change: int, approver: Actor, reason: str, passed: FreezePass = NO_FREEZE) -> Approval:
    with acting(author=approver.name, action="change_approve"), transaction.atomic():
        row = find_numbered(Change.objects.select_for_update(), change, "change")
        if problem := approver_objection(row, approver):
            raise problem
        passed.record(action="change_approve", author=approver.name, reason=reason, what=str(row))
        return Approval.objects.create(
            change=row, approver=approver.name, approver_identity=approver.identity, reason=reason
        )


def approver_objection(row: Change, approver: Actor) -> Refused | None:
    """Why this approver cannot approve the change; None: they can. Their role is checked elsewhere."""
    if row.is_over:
        return refuse("change", "over", f"{row} was already {row.state}; there is nothing to approve")
    if problem := objection(asker=author_of(row), approver=approver):
        return problem
    if row.approvals.filter(Q(approver=approver.name) | Q(approver_identity=approver.identity or None)).exists():
        return refuse("approver", "taken", f"{approver.name} has already approved {row}; approving it once is enough")
    return None


def author_of(row: Change) -> Actor:
    return actor_of(row.author, row.author_identity)
