"""The audit of everything enforced: triggers of the database write each change of a row to an append-only table.

Raw SQL and bulk writes are recorded like any other. Who acted stands in `pgh_context`: the actor and the request, where
there was one (access.gate), and the author and the action that a service function was told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import TypeVar

import pghistory
from django.db.models import BigAutoField, Model

M = TypeVar("M", bound=type[Model])


def tracked(*, exclude: Collection[str] = (), app: str | None = None) -> Callable[[M], M]:
    """For a model: its changes, newest last, are `row.events` and the table of `<Model>Event`."""
    decorate: Callable[[M], M] = pghistory.track(
        pghistory.InsertEvent(),
        pghistory.UpdateEvent(),
        pghistory.DeleteEvent(),
        exclude=list(exclude),
        app_label=app,
        obj_field=pghistory.ObjForeignKey(related_name="events", db_index=True),
        # Written with each event, not beside it: what is recorded is never touched again.
        context_field=pghistory.ContextJSONField(),
        context_id_field=None,  # type: ignore[arg-type] # its documentation says None
        append_only=True,
        attrs={"pgh_id": BigAutoField(primary_key=True)},
    )
    return decorate


def acting(**facts: str) -> AbstractContextManager[object]:
    """Within the block, what is recorded says this too."""
    context: AbstractContextManager[object] = pghistory.context(**facts)
    return context
