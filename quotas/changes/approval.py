"""Four eyes: with HEADROOM_FOUR_EYES, a change of enforced limits waits for the approval of somebody else.

Some actions never wait, because they deny nobody more or must not be delayed: new tenants, suspending and resuming a
tenant, anything in shadow, and the end of a trial. In an emergency nothing waits, and the audit records that.
"""

from __future__ import annotations

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from quotas.errors import Refused, author_and_reason, refuse
from quotas.models import Approval, Change
from tenants.history import acting
from tenants.identity import Actor, Person, actor_of, person_of
from tenants.models import ApiToken

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


def check_two(*, asker: Actor, approver: Actor) -> None:
    """Under four eyes nobody approves their own request."""
    if settings.HEADROOM_FOUR_EYES and (problem := objection(asker=asker, approver=approver)):
        raise problem


def objection(*, asker: Actor, approver: Actor, verb: str = "approve it") -> Refused | None:
    """Why the approver does not count as a second person; None: they do.

    A token counts as whoever issued it, so nobody approves by a token what they asked for, or the other way round.
    """
    if approver.is_machine and not _may_approve(approver):
        message = f"{approver.name} is a machine; it approves only once an owner allows it (manage.py token permit)"
        return refuse("approver", "machine", message)
    asking, approving = person_of(asker), person_of(approver)
    for actor, person in ((asker, asking), (approver, approving)):
        if person is None:
            message = f"nobody is known to answer for {actor.name}; say who does (manage.py token assign)"
            return refuse("approver", "issuer", message)
    if asking is not None and approving is not None and asking.is_same(approving):
        return refuse("approver", "author", f"{_named(approver, approving)} is the author; somebody else has to {verb}")
    return None


def _may_approve(machine: Actor) -> bool:
    _, _, key_id = machine.identity.partition(":")
    return ApiToken.objects.filter(key_id=key_id, may_approve=True).exists()


def _named(actor: Actor, person: Person) -> str:
    return f"{actor.name} counts as {person.name}, who" if actor.is_machine else actor.name


def change_approve(*, change: int, approver: str, reason: str) -> Approval:
    """Once a change is approved, anybody with the role for it may start and promote it."""
    approver, reason = author_and_reason(approver, reason)
    return approve(change, actor_of(approver), reason)


def approve(change: int, approver: Actor, reason: str) -> Approval:
    with acting(author=approver.name, action="change_approve"), transaction.atomic():
        row = Change.objects.select_for_update().filter(pk=change).first()
        if row is None:
            raise refuse("change", "unknown", f"there is no change {change}; correct the number")
        _check_approver(row, approver)
        return Approval.objects.create(
            change=row, approver=approver.name, approver_identity=approver.identity, reason=reason
        )


def _check_approver(row: Change, approver: Actor) -> None:
    if row.is_over:
        raise refuse("change", "over", f"{row} was already {row.state}; there is nothing to approve")
    if problem := objection(asker=author_of(row), approver=approver):
        raise problem
    if row.approvals.filter(Q(approver=approver.name) | Q(approver_identity=approver.identity or None)).exists():
        raise refuse("approver", "taken", f"{approver.name} has already approved {row}; approving it once is enough")


def author_of(row: Change) -> Actor:
    return actor_of(row.author, row.author_identity)
