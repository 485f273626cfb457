"""Four eyes: with HEADROOM_FOUR_EYES, what changes enforced limits waits for somebody else than its author.

What harms nobody's requests, or must not wait, does not: tenants that come, are suspended or resumed, what
only stands in shadow, and the way back from a trial. In an emergency anything goes at once, and is noted.
"""

from __future__ import annotations

from django.conf import settings

from quotas.errors import refuse
from quotas.models import AuditEvent, Change

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
    """Whether an edit has to become a change first, to be approved."""
    is_wanted: bool = settings.HEADROOM_FOUR_EYES
    return is_wanted and action not in NEVER_WAITS and not emergency


def check_approved(row: Change, *, emergency: bool) -> None:
    if not settings.HEADROOM_FOUR_EYES or emergency or row.emergency or row.approvals.exists():
        return
    message = f"{row} waits for an approver who is not {row.author}; have it approved, or say it is an emergency"
    raise refuse("change", "approval", message)


def note_emergency(*, action: str, author: str, reason: str, what: str) -> None:
    """Where four eyes were wanted, that there were two."""
    if settings.HEADROOM_FOUR_EYES:
        detail = {"action": action, "author": author, "reason": reason, "what": what}
        AuditEvent.objects.create(kind="approval_skipped", detail=detail)
