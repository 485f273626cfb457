"""Emergencies: what skips the consent of others. Each alerts and stays visible until somebody else has looked at it."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from quotas.changes.two_people import APPROVERS, objection
from quotas.errors import author_and_reason, refuse
from quotas.lookups import find_numbered
from quotas.models import AuditEvent, Emergency
from tenants.history import acting
from tenants.identity import Actor, acting_principal, actor_of
from tenants.scope import APPROVE

LONGEST_WHAT = 200


def check_may_declare(what: str = "an emergency", field: str = "emergency") -> None:
    """Commands on the machine and jobs may: whoever runs them could write to the database."""
    principal = acting_principal()
    if principal is None or (principal.role in APPROVERS and APPROVE in principal.scopes):
        return
    message = f"{what} belongs to approvers and owners (a token needs the scope {APPROVE} too); ask one of them"
    raise refuse(field, "forbidden", message)


def note_skipped(
    *, action: str, author: str, reason: str, what: str, is_declared: bool = True, is_grave: bool = False
) -> None:
    """Records that an approval was skipped, where one was required.

    `is_declared`: somebody chose to, so somebody else has to look at it. `is_grave`: they have to in any case.
    """
    if settings.HEADROOM_FOUR_EYES:
        detail = {"action": action, "author": author, "reason": reason, "what": what}
        AuditEvent.objects.create(kind="approval_skipped", detail=detail)
    if is_grave or (is_declared and settings.HEADROOM_FOUR_EYES):
        declare(action=action, author=author, reason=reason, what=what)


def declare(*, action: str, author: str, reason: str, what: str) -> Emergency:
    who = actor_of(author)
    with acting(author=author, action=action):
        return Emergency.objects.create(
            action=action, author=author, author_identity=who.identity, reason=reason, what=what[:LONGEST_WHAT]
        )


def emergencies_open() -> QuerySet[Emergency]:
    """Those that nobody else has looked at, newest first."""
    return Emergency.objects.filter(reviewed_at=None)


def emergency_review(*, emergency: int, author: str, reason: str) -> Emergency:
    """Somebody else than its author has looked at it. Their tokens count as themselves."""
    author, reason = author_and_reason(author, reason)
    with acting(author=author, action="emergency_review"), transaction.atomic():
        row = find_numbered(Emergency.objects.select_for_update(), emergency, "emergency")
        if row.reviewed_at is not None:
            raise refuse("emergency", "over", f"{row.reviewer} has already looked at {row}; once is enough")
        reviewer = actor_of(author)
        if problem := objection(asker=author_of(row), approver=reviewer, verb="look at it"):
            raise problem
        row.reviewer, row.reviewer_identity = reviewer.name, reviewer.identity
        row.review_reason, row.reviewed_at = reason, timezone.now()
        row.save()
        detail = {"emergency": row.pk, "what": row.what, "author": author, "reason": reason}
        AuditEvent.objects.create(kind="emergency_reviewed", detail=detail)
    return row


def author_of(row: Emergency) -> Actor:
    return actor_of(row.author, row.author_identity)
