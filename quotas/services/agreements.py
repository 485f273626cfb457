"""What one asks for and another grants: a change of the one that the other approves, as four eyes want it.

A tenant's request that is granted, and a recommendation that is approved, are such. Neither is an emergency.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings

from quotas.errors import refuse
from quotas.models import Change
from quotas.services.approvals import change_approve
from quotas.services.changes import change_propose


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
