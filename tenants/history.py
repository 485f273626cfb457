"""The audit of everything that is enforced: database triggers write each change of a row to an append-only table.

Raw SQL and bulk writes are recorded too. `pgh_context` has the actor and the request id, if there was a request
(access.gate), and the author and action that the writing function was given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import TypeVar

import pghistory
from django.db.models import BigAutoField, Model

M = TypeVar("M", bound=type[Model])


def tracked(*, exclude: Collection[str] = (), app: str | None = None) -> Callable[[M], M]:
    """Class decorator for a model. Its changes, newest last, are `row.events`, in the table of `<Model>Event`."""
    decorate: Callable[[M], M] = pghistory.track(
        pghistory.InsertEvent(),
        pghistory.UpdateEvent(),
        pghistory.DeleteEvent(),
        exclude=list(exclude),
        app_label=app,
        obj_field=pghistory.ObjForeignKey(related_name="events", db_index=True),
        # In the event's own row, not in a table of contexts, so that nothing recorded is ever updated.
        context_field=pghistory.ContextJSONField(),
        context_id_field=None,  # type: ignore[arg-type] # its documentation says None
        append_only=True,
        attrs={"pgh_id": BigAutoField(primary_key=True)},
    )
    return decorate


def acting(**facts: str | int) -> AbstractContextManager[object]:
    """Add these facts to the context of everything recorded within the block."""
    context: AbstractContextManager[object] = pghistory.context(**facts)
    return context
