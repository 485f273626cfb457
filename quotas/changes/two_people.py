"""Whether two actors are two people, which four eyes and the review of an emergency take."""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.contrib.auth.models import User

from quotas.errors import Refused, refuse
from tenants.identity import Actor, Person, person_of
from tenants.models import ApiToken, Role
from tenants.scope import principal_of_user

APPROVERS: Final = frozenset({Role.APPROVER.value, Role.OWNER.value})


def check_two(*, asker: Actor, approver: Actor, part: str = "") -> None:
    """Under four eyes nobody approves their own request. `part`: what makes the asker one, if not being its author."""
    if settings.HEADROOM_FOUR_EYES and (problem := objection(asker=asker, approver=approver, part=part)):
        raise problem


def objection(*, asker: Actor, approver: Actor, verb: str = "approve it", part: str = "") -> Refused | None:
    """Why the approver does not count as a second person; None: they do.

    A token counts as whoever issued it, so nobody approves by a token what they asked for, or the other way round.
    """
    if approver.is_machine and not _may_approve(approver):
        message = f"{approver.name} is a machine; it approves only once an owner allows it (manage.py token permit)"
        return refuse("approver", "machine", message)
    asking, approving = person_of(asker), person_of(approver)
    if approver.is_machine and approving is not None and not _is_approver(approving):
        message = f"{approving.name}, who answers for {approver.name}, is not an approver; somebody else has to {verb}"
        return refuse("approver", "role", message)
    for actor, person in ((asker, asking), (approver, approving)):
        if person is None:
            return refuse("approver", "issuer", _unknown(actor))
    if asking is not None and approving is not None and asking.is_same(approving):
        message = f"{_named(approver, approving)} {part or _is_author(asker)}; somebody else has to {verb}"
        return refuse("approver", "author", message)
    return None


def _may_approve(machine: Actor) -> bool:
    _, _, key_id = machine.identity.partition(":")
    return ApiToken.objects.filter(key_id=key_id, may_approve=True).exists()


def _is_approver(person: Person) -> bool:
    """As of now: a machine must not keep a consent that its issuer may no longer give."""
    principal = None if person.number is None else principal_of_user(User.objects.filter(pk=person.number).first())
    return principal is not None and principal.role in APPROVERS


def _unknown(actor: Actor) -> str:
    if actor.is_key:
        return f"{actor.name} may be in anybody's hands; one of the tenant's users has to ask, signed in"
    return f"nobody is known to answer for {actor.name}; say who does (manage.py token assign)"


def _is_author(asker: Actor) -> str:
    return f"is the author: {asker.name} counts as its issuer" if asker.is_machine else "is the author"


def _named(actor: Actor, person: Person) -> str:
    return f"{actor.name} counts as {person.name}, who" if actor.is_machine else actor.name
