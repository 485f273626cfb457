"""Going back: `revision_rollback` to an earlier configuration, `revision_revert` of one revision.

Each is a change like any other, with a revision of its own. Neither touches API keys, suspensions or the tiers that
tenants are on, and neither removes a tenant or a tier.
"""

from __future__ import annotations

from typing import Unpack

from quotas.changes.draft import Permits, draft
from quotas.changes.restore import restore, restore_foreseen
from quotas.changes.snapshot import Draft, State, States
from quotas.errors import refuse
from quotas.models import Revision
from quotas.models.revision import newest_revision_number


def revision_rollback(*, number: int, author: str, reason: str, **permits: Unpack[Permits]) -> Revision | None:
    """Restores everything that later revisions touched to its state after revision `number`."""
    with draft(action="revision_rollback", author=author, reason=reason, **permits) as opened:
        _check_there(number)
        states: dict[str, State] = {}
        later = Revision.objects.filter(number__gt=number).order_by("-number").values_list("before", flat=True)
        for before in later.iterator(chunk_size=100):
            states.update(before)  # the earliest of them has the state we want
        _restore(opened, states)
    return opened.revision


def revision_revert(*, number: int, author: str, reason: str, **permits: Unpack[Permits]) -> Revision:
    """Restores what revision `number` touched to its state before it; refused if any of it was touched since."""
    with draft(action="revision_revert", author=author, reason=reason, **permits) as opened:
        _check_there(number)
        revision = Revision.objects.get(number=number)
        _check_untouched(revision)
        _restore(opened, revision.before)
    if opened.revision is None:
        message = f"revision {number} only moved or suspended tenants; move or resume them instead"
        raise refuse("number", "nothing", message)
    return opened.revision


def _restore(opened: Draft, states: States) -> None:
    if not (opened.is_rehearsal and restore_foreseen(opened, states)):
        restore(opened, states)


def _check_there(number: int) -> None:
    newest = newest_revision_number()
    if not 0 < number <= newest:
        raise refuse("number", "unknown", f"there is no revision {number}; choose one from 1 to {newest}")


def _check_untouched(revision: Revision) -> None:
    later = Revision.objects.filter(number__gt=revision.number, touched__overlap=revision.touched).order_by("number")
    first = later.first()
    if first is not None:
        same = ", ".join(sorted(set(first.touched) & set(revision.touched)))
        message = f"revision {first.number} touched {same} since; revert that one first, or roll back to an earlier one"
        raise refuse("number", "touched_since", message)
