"""Going back: `revision_rollback` to an earlier configuration, `revision_revert` of one revision.

Each is a change like any other, with a revision of its own. Neither touches API keys or suspensions, and neither
removes a tenant or a tier. A revert moves tenants back to their tier, and brings archived ones back, without keys; a
rollback leaves tenants where they are, and archived. A trial that has ended stays over, unless somebody asks for it; a
promotion that is undone leaves its change reverted. Who takes back what they wrote within the last hour need not force
it (docs/adr/own-undo.md).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import Final, Unpack

from django.db import connection
from django.db.models import Q
from django.utils import timezone

from quotas.changes.draft import Permits, draft
from quotas.changes.recommended import follow
from quotas.changes.restore import restore, restore_foreseen
from quotas.changes.snapshot import CHANGE, TENANT, Draft, State, States, key_of, present_states
from quotas.changes.turn import turn
from quotas.errors import Refused, refuse
from quotas.models import Change, Revision
from quotas.models.change import ENDED, ChangeState
from quotas.models.revision import newest_revision_number
from tenants.history import acting

MOST_NAMED: Final = 10  # objects in a refusal
# The earliest of the revisions has the state we want. Postgres picks it, so that few states are read.
_STATES: Final = """
    SELECT DISTINCT ON (key) key, state FROM quotas_revision, jsonb_each(before) AS was(key, state)
    WHERE number BETWEEN %(first)s AND %(last)s AND (%(keys)s::text[] IS NULL OR key = ANY(%(keys)s))
    ORDER BY key, number
"""
# The next revision that touched the same, the first of these objects by name, and how many they are.
_TOUCHED_SINCE: Final = """
    WITH undone AS MATERIALIZED (SELECT touched FROM quotas_revision WHERE number = %(number)s),
    later AS MATERIALIZED (
        SELECT number, touched FROM quotas_revision
        WHERE number > %(number)s AND touched && (SELECT touched FROM undone) ORDER BY number LIMIT 1
    ),
    same AS (SELECT unnest(touched) AS key FROM later INTERSECT SELECT unnest(touched) FROM undone)
    SELECT number, ARRAY(SELECT key FROM same ORDER BY key COLLATE "C" LIMIT %(most)s), (SELECT count(*) FROM same)
    FROM later
"""


_CHANGES: Final = """
    SELECT DISTINCT key FROM quotas_revision, unnest(touched) AS key
    WHERE number BETWEEN %s AND %s AND split_part(key, ':', 1) = 'change' ORDER BY key LIMIT 200
"""
OWN_UNDO: Final = timedelta(hours=1)


def revision_rollback(
    *,
    number: int,
    author: str,
    reason: str,
    newest: int | None = None,
    reopen_trials: bool = False,
    **permits: Unpack[Permits],
) -> Revision | None:
    """Restores everything that later revisions touched to its state after revision `number`.

    `newest`: the newest revision that the author has seen; refused if there is a newer one, which it would undo too.
    `reopen_trials`: changes that were on trial then, and are over, go on trial again.
    """
    with turn():
        last = newest_revision_number()
        permits = _permitted(number + 1, last, author, permits)
        with draft(action="revision_rollback", author=author, reason=reason, **permits) as opened:
            check_there(number)
            if newest is not None and newest != last:
                message = f"revision {last} was written since, and would be undone too; close this and look again"
                raise refuse("number", "newer", message)
            states = states_before(number + 1, last)
            _restore(opened, states if reopen_trials else without_ended_trials(states), number + 1)
        if opened.revision is not None:
            turn_back(opened, Q(end_revision__gt=number), Q(end_revision__lte=number, revert_revision__gt=number))
    return opened.revision


def revision_revert(
    *, number: int, author: str, reason: str, reopen_trials: bool = False, **permits: Unpack[Permits]
) -> Revision:
    """Restores what revision `number` touched to its state before it; refused if any of it was touched since."""
    with turn():
        permits = _permitted(number, number, author, permits)
        with draft(action="revision_revert", author=author, reason=reason, **permits) as opened:
            check_there(number)
            check_untouched(number)
            states = states_before(number, number)
            kept = states if reopen_trials else without_ended_trials(states)
            _restore(opened, kept, number, reverts_tenants=True)
        if opened.revision is None:
            raise _nothing(number, is_trial=kept != states)
        turn_back(opened, Q(end_revision=number), Q(revert_revision=number))
    return opened.revision


def trials_undone(first: int, last: int) -> list[Change]:
    """Changes that are over, and were on trial before the first of these revisions: an undo may reopen them."""
    return list(_ended_trials(states_before(first, last, _change_keys(first, last))))


def is_own_undo(first: int, last: int, author: str, now: datetime | None = None) -> bool:
    """Whether the author wrote all of these revisions, within the last hour."""
    rows = Revision.objects.filter(number__gte=first, number__lte=last)
    since = (now or timezone.now()) - OWN_UNDO
    return first <= last and not rows.filter(~Q(author=author) | Q(created__lt=since)).exists()


def _permitted(first: int, last: int, author: str, permits: Permits) -> Permits:
    return {**permits, "force": True} if is_own_undo(first, last, author) else permits


def _nothing(number: int, *, is_trial: bool) -> Refused:
    if is_trial:
        message = f"revision {number} ended a trial, which stays over; reopen it (reopen_trials), or propose it again"
        return refuse("reopen_trials", "trial", message)
    message = (
        f"revision {number} only created, suspended or restored tenants, or created tiers; "
        "resume, archive or retire them instead"
    )
    return refuse("number", "nothing", message)


def without_ended_trials(states: States) -> dict[str, State]:
    """The same, with the policies as they are without the trials that are over."""
    kept = dict(states)
    for row in _ended_trials(states):
        del kept[key_of(CHANGE, row.pk)]
        kept |= {key: row.before[key] for key in row.touched if key in kept}
    return kept


def _ended_trials(states: States) -> Iterator[Change]:
    numbers = [int(name) for name, _ in present_states(states, CHANGE)]
    yield from Change.objects.filter(pk__in=numbers, state__in=ENDED) if numbers else ()


def _change_keys(first: int, last: int) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(_CHANGES, [first, last])
        return [key for (key,) in cursor.fetchall()]


def turn_back(opened: Draft, promoted: Q, reverted: Q) -> None:
    """Of the undone revisions: promotions are reverted now, and what was reverted is promoted again."""
    with acting(author=opened.author, action="change_revert"):
        for rows, state in (
            (Change.objects.filter(promoted, state=ChangeState.PROMOTED), ChangeState.REVERTED),
            (Change.objects.filter(reverted, state=ChangeState.REVERTED), ChangeState.PROMOTED),
        ):
            for row in list(rows):
                revert_change(row, state, opened.author, opened.reason, opened.number)


def revert_change(row: Change, state: ChangeState, author: str, reason: str, revision: int) -> None:
    row.state, row.end_author, row.end_reason = state, author, reason
    row.revert_revision_id = revision if state == ChangeState.REVERTED else None
    row.save()
    follow(row)


def states_before(first: int, last: int, keys: Collection[str] | None = None) -> dict[str, State]:
    """What these revisions touched, as it was before the first of them. `keys`: only of these objects."""
    with connection.cursor() as cursor:
        cursor.execute(_STATES, {"first": first, "last": last, "keys": None if keys is None else list(keys)})
        return {key: json.loads(state) for key, state in cursor.fetchall()}


def check_there(number: int) -> None:
    newest = newest_revision_number()
    if not 0 < number <= newest:
        raise refuse("number", "unknown", f"there is no revision {number}; choose one from 1 to {newest}")


def check_untouched(number: int) -> None:
    """That no later revision touched what this one did."""
    with connection.cursor() as cursor:
        cursor.execute(_TOUCHED_SINCE, {"number": number, "most": MOST_NAMED})
        found = cursor.fetchone()
    if found is not None:
        later, names, count = found
        more = f" and {count - MOST_NAMED:,} more" if count > MOST_NAMED else ""
        message = (
            f"revision {later} touched {', '.join(names)}{more} since; "
            "revert that one first, or roll back to an earlier one"
        )
        raise refuse("number", "touched_since", message)


def _restore(opened: Draft, states: States, undone: int, *, reverts_tenants: bool = False) -> None:
    if not reverts_tenants:
        opened.former_tiers = {name: state["tier"] for name, state in present_states(states, TENANT)}
    if not (opened.is_rehearsal and restore_foreseen(opened, states, reverts_tenants=reverts_tenants)):
        restore(opened, states, reverts_tenants=reverts_tenants, undone=undone)
