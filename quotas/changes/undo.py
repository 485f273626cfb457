"""Going back: `revision_rollback` to an earlier configuration, `revision_revert` of one revision.

Each is a change like any other, with a revision of its own. Neither touches API keys, suspensions or the tiers that
tenants are on, and neither removes a tenant or a tier. A revert of an archive brings the tenant back, without keys; a
rollback leaves tenants archived.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Final, Unpack

from django.db import connection

from quotas.changes.draft import Permits, draft
from quotas.changes.restore import restore, restore_foreseen
from quotas.changes.snapshot import Draft, State, States
from quotas.errors import refuse
from quotas.models import Revision
from quotas.models.revision import newest_revision_number

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


def revision_rollback(
    *, number: int, author: str, reason: str, newest: int | None = None, **permits: Unpack[Permits]
) -> Revision | None:
    """Restores everything that later revisions touched to its state after revision `number`.

    `newest`: the newest revision that the author has seen; refused if there is a newer one, which it would undo too.
    """
    with draft(action="revision_rollback", author=author, reason=reason, **permits) as opened:
        check_there(number)
        last = opened.number - 1
        if newest is not None and newest != last:
            message = f"revision {last} was written since, and would be undone too; close this and look again"
            raise refuse("number", "newer", message)
        _restore(opened, states_before(number + 1, last))
    return opened.revision


def revision_revert(*, number: int, author: str, reason: str, **permits: Unpack[Permits]) -> Revision:
    """Restores what revision `number` touched to its state before it; refused if any of it was touched since."""
    with draft(action="revision_revert", author=author, reason=reason, **permits) as opened:
        check_there(number)
        check_untouched(number)
        _restore(opened, states_before(number, number), lifts_archive=True)
    if opened.revision is None:
        message = (
            f"revision {number} only created, moved, suspended or restored tenants; "
            "move, resume or archive them instead"
        )
        raise refuse("number", "nothing", message)
    return opened.revision


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


def _restore(opened: Draft, states: States, *, lifts_archive: bool = False) -> None:
    if not (opened.is_rehearsal and restore_foreseen(opened, states, lifts_archive=lifts_archive)):
        restore(opened, states, lifts_archive=lifts_archive)
