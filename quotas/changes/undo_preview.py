"""What a rollback or a revert of many objects would change, for a page: bounded work, however many objects there are.

It does not judge whom the undo hurts. That takes about a millisecond for each policy, and all requests of a web process
share one interpreter. The undo itself judges all of it before it writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.db import connection

from quotas.changes.dry_run import dry_run
from quotas.changes.rehearsal import FORESEEN
from quotas.changes.restore import restored
from quotas.changes.undo import check_there, check_untouched, states_before
from quotas.models.revision import newest_revision_number
from quotas.policies.diff import ObjectDiff

MOST_JUDGED: Final = 500  # objects: of so few, a page shows whom the undo hurts
MOST_COMPARED: Final = 500

_COUNT: Final = """
    SELECT count(DISTINCT key) FROM quotas_revision, unnest(touched) AS key WHERE number BETWEEN %s AND %s
"""
_FIRST: Final = """
    SELECT DISTINCT key FROM quotas_revision, unnest(touched) AS key
    WHERE number BETWEEN %s AND %s AND split_part(key, ':', 1) = ANY(%s) ORDER BY key LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class UndoPreview:
    touched: int  # objects that the undone revisions touched
    compared: int  # the first of them that can be foreseen
    changes: tuple[ObjectDiff, ...]  # of those compared


@dataclass(frozen=True, slots=True)
class Undone:
    """The revisions that an undo takes back."""

    first: int
    last: int
    reverts_tenants: bool = False

    @classmethod
    def by_rollback(cls, number: int) -> Undone:
        check_there(number)
        return cls(number + 1, newest_revision_number())

    @classmethod
    def by_revert(cls, number: int) -> Undone:
        check_there(number)
        return cls(number, number, reverts_tenants=True)

    @property
    def touched(self) -> int:
        with connection.cursor() as cursor:
            cursor.execute(_COUNT, [self.first, self.last])
            return int(cursor.fetchone()[0])

    def preview(self) -> UndoPreview:
        """From one snapshot. Refused for a single revision if what it touched was touched since."""
        with dry_run():
            if self.first == self.last:
                check_untouched(self.first)
            with connection.cursor() as cursor:
                cursor.execute(_FIRST, [self.first, self.last, list(FORESEEN), MOST_COMPARED])
                keys = [key for (key,) in cursor.fetchall()]
            states = states_before(self.first, self.last, keys)
            changes = restored(states, reverts_tenants=self.reverts_tenants)
            return UndoPreview(self.touched, len(keys), changes)
